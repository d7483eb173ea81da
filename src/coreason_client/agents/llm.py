"""An agent that sends the conversation to a model and streams its answer.

Readers receive:

* The text of the answer as DELTA packets, in the pieces that the model sends.
* The reasoning of the model, if its provider sends it, as THOUGHT_TRACE events, one per paragraph:
  one per token would be most of the stream. Reasoning is not part of the answer and is not sent to
  a model later.
* With tools, an EVENT of type TOOL_CALL for each call, and one of type TOOL_RESULT for its result;
  the results follow in the order of the calls.
* A question, if a tool needs an approval: the stream ends, and the next message of the conversation
  answers it. Then the run goes on at the call, without asking the model again.
* With tools and `AgentApp(inbox=True)`, messages that arrive meanwhile go to the model with the
  results of the next tool calls.
* At the end, one EVENT of type USAGE with the model, the tokens and the cost.
* If the model fails, an error at the end of the stream. Its code and message come from the table
  below; the provider's message is only logged, for the operator of the agent.

In a durable application each answer of the model is a step, and each tool call is one. After a
restart, a model that accepts the beginning of its answer continues it; the usage is then that of
all requests, with an estimate for those that were interrupted. Any other model is asked again, and
its answer is compared with what was written: the first difference is rewound, or ends the stream
for clients without rewinds.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from coreason_manifest.definitions.reports import USAGE
from coreason_manifest.definitions.service import ServiceRequest

from ..llm import Approval, AsyncLLMClient, Message, Response, Tool, errors
from ..llm._argument_errors import check_text, invalid
from ..llm._call import KEEP_INVALID_CALLS
from ..llm._check_call import check_call
from ..llm._from_env import import_async_client
from ..llm.errors import LLMError
from ..llm.tools._given_tools import GivenTools, given_tools_async
from ..llm.tools._run_machine import RunLimits
from ._answer import AnswerFailed, AnswerWriter, ToolRun, waiting_run
from ._prompt import conversation, earlier_turns, refusing

if TYPE_CHECKING:
    from ..llm import MCPServer
    from ..server import AgentStream

__all__ = ["USAGE", "llm_agent"]

logger = logging.getLogger("coreason_client.agents")

_ASK_THE_OPERATOR = "Please contact the operator of this agent."
# The errors of the AI client as readers see them: a stable code, and a message without any text of
# the provider.
_ERRORS: dict[type[LLMError], tuple[str, str]] = {
    errors.LLMAuthenticationError: (
        "model_authentication",
        f"The agent has no valid key for its model. {_ASK_THE_OPERATOR}",
    ),
    errors.LLMPermissionError: (
        "model_permission",
        f"The agent has no permission to use its model. {_ASK_THE_OPERATOR}",
    ),
    errors.LLMRequestError: ("model_request", "The model rejected this request."),
    errors.LLMContextLengthError: (
        "model_context_length",
        "The conversation is too long for the model: start a new one, or send less text.",
    ),
    errors.LLMNotFoundError: (
        "model_not_found",
        f"The agent's model was not found. {_ASK_THE_OPERATOR}",
    ),
    errors.LLMRateLimitError: (
        "model_rate_limit",
        "The model has received too many requests: try again later.",
    ),
    errors.LLMBudgetError: ("model_budget", "The budget for the model is used up."),
    errors.LLMStateError: (
        "model_state",
        "The budget for the model cannot be checked at the moment.",
    ),
    errors.LLMQuotaError: (
        "model_quota",
        f"The agent's quota for its model is exhausted. {_ASK_THE_OPERATOR}",
    ),
    errors.LLMTimeoutError: ("model_timeout", "The model did not answer in time: try again."),
    errors.LLMConnectionError: (
        "model_connection",
        "The model cannot be reached, or the connection to it broke: try again.",
    ),
    errors.LLMServerError: ("model_server", "The model's provider failed: try again later."),
    errors.LLMOverloadedError: (
        "model_overloaded",
        "The model's provider is overloaded: try again later.",
    ),
    errors.LLMFilteredError: ("model_filtered", "The model's provider withheld the answer."),
    errors.LLMResponseError: ("model_response", "The answer of the model's provider is invalid."),
    errors.LLMRunLimitError: (
        "run_limit",
        "The agent has reached a limit before it had an answer.",
    ),
    errors.LLMRunTimeoutError: ("run_timeout", "The agent had no answer in time: try again."),
    errors.LLMToolError: ("tool_failed", "A tool of the agent has failed too often."),
    errors.LLMApprovalRequired: ("tool_approval", "A tool of the agent needs an approval."),
    errors.ToolAbort: ("tool_aborted", "A tool of the agent has stopped the answer."),
    LLMError: ("model_error", "The model gave no answer."),
}

_UNSUPPORTED = "unsupported_content"
# Outcomes of turns that the model or its provider rejected: they are not sent again, because every
# later question of the conversation would be rejected with them.
_REJECTED = frozenset(
    (
        _UNSUPPORTED,
        *(
            _ERRORS[kind][0]
            for kind in (
                errors.LLMRequestError,
                errors.LLMContextLengthError,
                errors.LLMFilteredError,
            )
        ),
    )
)

Agent: TypeAlias = "Callable[[ServiceRequest, AgentStream], Coroutine[Any, Any, None]]"


def llm_agent(
    model: str | None = None,
    *,
    client: AsyncLLMClient | None = None,
    system: str | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    fallbacks: Sequence[str] = (),
    tools: "Sequence[Callable[..., Any] | Tool | MCPServer | Mapping[str, Any]]" = (),
    max_turns: int = 10,
    max_cost: float | None = None,
    history_turns: int = 20,
    history_chars: int = 50_000,
    thoughts: bool = True,
    tool_events: bool = True,
    max_tool_result: int = 65_536,
    tell_errors: bool = False,
) -> Agent:
    """Return an agent that answers with a model.

    Args:
        model: the name of the model; the default is that of the client.
        client: the client to use. Without one, the agent creates one from the environment for its
            first request and uses it for all; its connections are closed with the event loop.
        system: a system prompt that precedes those of a request.
        temperature: the sampling temperature, 0 to 1 (up to 2 where the provider accepts it), or
            None for the provider's default.
        max_tokens: the maximum length of an answer, or None for the provider's default.
        fallbacks: other models, tried in order if the first one fails.
        tools: functions, `Tool` values, MCP servers and tools of the provider. A server that is
            not open is opened for each request.
        max_turns: the maximum number of answers of the model for one request.
        max_cost: the dollars at which no further answer is requested.
        history_turns: the maximum number of earlier turns that are sent. None is sent if the
            request contains answers, because it is then the complete conversation. Cancelled and
            broken turns count; turns that the model rejected are left out.
        history_chars: the maximum length of these turns together; an image, a sound or a file
            counts as 4000 characters.
        thoughts: False hides the reasoning of the model from readers.
        tool_events: False hides the calls of tools and their results from readers.
        max_tool_result: the number of characters of a tool result that readers get; a mark at the
            end of a longer one has its length. The model gets up to 100,000, and readers no more.
        tell_errors: True shows readers the message of the AI client, which may contain text of the
            provider; use it only if the readers are the operators of the agent.

    Raises:
        LLMRequestError: an argument is wrong.
        MissingExtraError: there is no client, and the extra `llm` is not installed.
    """
    if system is not None:
        check_text("system", system)
    # `check_call` needs a message, and none is known yet.
    messages = [{"role": "user", "content": ""}]
    check_call(messages, "a model" if model is None else model, None, temperature, max_tokens)
    _check_maximum("history_turns", history_turns)
    _check_maximum("history_chars", history_chars)
    _check_maximum("max_tool_result", max_tool_result)
    if client is None:
        import_async_client()
    agent = _ModelAgent(
        tools=given_tools_async(list(tools)) if tools else None,
        asks=any(isinstance(tool, Tool) and tool.requires_approval for tool in tools),
        limits=RunLimits(max_turns=max_turns, max_cost=max_cost),
        max_shown=max_tool_result if tool_events else None,
        model=model,
        client=client,
        system=system,
        options={"temperature": temperature, "max_tokens": max_tokens, "fallbacks": fallbacks},
        history_turns=history_turns,
        history_chars=history_chars,
        thoughts=thoughts,
        tell_errors=tell_errors,
    )

    @refusing
    async def llm(request: ServiceRequest, stream: "AgentStream") -> None:
        await agent.answer(request, stream)

    return llm


def _check_maximum(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise invalid(name, "must be a whole number, 0 or more", value)


@dataclass(slots=True)
class _ModelAgent:
    """Sends requests to the model and passes its answers on."""

    tools: GivenTools | None
    asks: bool
    limits: RunLimits
    max_shown: int | None
    model: str | None
    client: AsyncLLMClient | None = field(repr=False)
    system: str | None
    options: dict[str, Any]
    history_turns: int
    history_chars: int
    thoughts: bool
    tell_errors: bool

    async def answer(self, request: ServiceRequest, stream: "AgentStream") -> None:
        """Answer one request."""
        if self.tools is not None and self.asks:
            waiting = waiting_run(await stream.answered_question())
            if waiting is not None:
                await self._run(waiting.messages, stream, self.tools, waiting.approvals)
                return
        turns = await earlier_turns(request, stream, self.history_turns)
        earlier = [turn for turn in turns if turn.outcome not in _REJECTED]
        requested = request.payload.messages or []
        messages = conversation(requested, earlier, self.system, self.history_chars)
        if self.tools is not None:
            await self._run(messages, stream, self.tools)
            return

        async def answer() -> dict[str, Any]:
            return await self._write_answer(messages, stream)

        # Without arguments: a release with another system prompt may continue the answer.
        ended = await stream.step("answer", answer, on_restart="resume")
        if "error" in ended:
            await stream.fail(**ended["error"])
        else:
            await stream.usage(**ended["usage"])

    async def _run(
        self,
        messages: list[Message],
        stream: "AgentStream",
        tools: GivenTools,
        approvals: Mapping[str, Approval] | None = None,
    ) -> None:
        """Answer with a model that calls tools, or ask whether a tool may be called."""

        async def write_answer(
            messages: list[Message], definitions: Sequence[Mapping[str, Any]]
        ) -> dict[str, Any]:
            return await self._write_answer(messages, stream, definitions)

        try:
            client, limits = self._client(), self.limits
            run = ToolRun(
                *(stream, tools, limits, client), max_shown=self.max_shown, approvals=approvals
            )
            result = (await run.run(messages, write_answer)).result
        except AnswerFailed as failed:
            await stream.fail(**failed.with_usage())
        except LLMError as error:
            await stream.fail(**self._error(error, stream))
        else:
            if result is not None:
                usage = _usage_data(result.response["model"], result.response)
                await stream.usage(**{**usage, **result.usage, "turns": result.turns})

    def _client(self) -> AsyncLLMClient:
        if self.client is None:
            self.client = AsyncLLMClient.from_env()
        return self.client

    async def _write_answer(
        self,
        messages: list[Message],
        stream: "AgentStream",
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Write the answer; return its outcome for the journal.

        That is the error that ended it, the data of its USAGE event, or, with tools, the response.
        """
        try:
            client = self._client()
            model = client.default_model if self.model is None else self.model
            options = self.options
            if tools is not None:
                options = {**options, "tools": tools, KEEP_INVALID_CALLS: True}
            answer = AnswerWriter(client, model, options, stream, thoughts=self.thoughts)
            response = await answer.write(messages)
        except LLMError as error:
            return {"error": self._error(error, stream)}
        if tools is not None:
            return {"response": response}
        return {"usage": _usage_data(model, response)}

    def _error(self, error: LLMError, stream: "AgentStream") -> dict[str, Any]:
        """Log the error of the AI client, and return the one for readers."""
        logger.error(
            "stream %s: the model failed: %s (model %s, provider's request id %s, attempts %d)",
            stream.stream_id,
            error,
            error.model,
            error.request_id,
            error.attempts,
        )
        code, message = next(_ERRORS[kind] for kind in type(error).__mro__ if kind in _ERRORS)
        details: dict[str, Any] = {}
        if error.retry_after is not None:
            details["retry_after"] = error.retry_after
        if error.partial is not None:  # it is billed, although it is incomplete
            details["usage"] = error.partial["usage"]
        elif error.usage is not None:  # the usage of the answers before it
            details["usage"] = error.usage
        if self.tell_errors:
            message = str(error)
        return {"code": code, "message": message, "details": details or None}


def _usage_data(model: str, response: Response) -> dict[str, Any]:
    data: dict[str, Any] = {
        "model": response.get("model", model),
        "finish_reason": response["data"]["finish_reason"],
        **response["usage"],
    }
    if response["data"].get("filtered"):
        data["filtered"] = True
    return data
