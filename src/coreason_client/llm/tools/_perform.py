"""The execution of one tool call, as far as it is the same in both clients."""

import logging
from collections.abc import Iterable
from typing import Any

from ..observe._observation import Observation
from ..observe._work_span import NO_SPAN, WorkSpan
from ._function_schema import ArgumentsError
from ._output import ToolOutput, error_output, failure_output
from ._run_machine import Requested
from ._toolset import RunnableTool, Toolset

__all__ = ["failed", "finish_span", "known_secrets", "refused", "too_late", "tool_span"]

logger = logging.getLogger("coreason_client.llm")


def refused(toolset: Toolset, requested: Requested) -> ToolOutput | None:
    """Return the output of a call that is not executed, None if it is."""
    if requested.refusal is not None:
        return error_output(requested.refusal)
    name = requested.call["name"]
    return error_output(toolset.unknown(name)) if toolset.find(name) is None else None


def failed(tool: RunnableTool, error: BaseException, secrets: Iterable[str]) -> ToolOutput:
    """Return the output of a call that raised an error, and log the error."""
    if isinstance(error, ArgumentsError):
        return error_output(f"invalid arguments: {error}", "invalid_arguments")
    output = failure_output(error, secrets)
    if output.abort is None:
        logger.warning("the tool %s failed: %s", tool.name, output.text, exc_info=error)
    return output


def too_late(tool: RunnableTool) -> ToolOutput:
    """Return the output of a call that took longer than the timeout of its tool."""
    late = f"the tool took longer than its timeout of {tool.timeout:g} s"
    return error_output(late, "timeout")


def tool_span(client: Any, tool: RunnableTool, requested: Requested) -> WorkSpan:
    """Return the span of a call, in a run of the client."""
    observation: Observation = client._observation
    if observation.instruments() is None:
        return NO_SPAN
    call, secrets = requested.call, known_secrets(client)
    return observation.tool(tool.name, call["id"], call["arguments"], tool.kind, secrets)


def finish_span(span: WorkSpan, output: ToolOutput) -> None:
    """Record the output of a call in its span."""
    span.set_result(output.text)
    if output.is_error:
        span.set_error(output.error_type)


def known_secrets(client: Any) -> list[str]:
    """Return the keys of a client: a tool may use the same ones, and show them in an error."""
    target = client._target
    keys = (target.api_key, *target.keys.values())
    return [key for key in keys if isinstance(key, str) and key]
