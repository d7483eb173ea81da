"""Items of a script that belong to A2A: results, questions and states of a task.

They are agents of one step each, so that `fake_agent` can play them too.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from coreason_manifest.definitions.service import ServiceRequest

from . import _script  # noqa: F401 - reports a missing extra

from ..server.parts import PartContent, dump_parts  # isort: skip
from ..server.stream import AgentStream  # isort: skip

__all__ = ["artifact", "ask", "message", "reject", "status"]

AgentStep: TypeAlias = Callable[[ServiceRequest, AgentStream], Awaitable[None]]


def artifact(
    name: str, *parts: PartContent, append: bool = False, last_chunk: bool = True
) -> AgentStep:
    """Return an item with which the agent writes a result beside its text.

    A part is text, data (a dict or a list), a `File` or a `Link`. A result in several pieces has
    one name; all but the first have `append`, and all but the last `last_chunk=False`.

    Raises:
        ArgumentError: there is no part, or one has another type.
    """
    dump_parts(parts)  # checked here, where the script is written

    async def write(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.artifact(name, *parts, append=append, last_chunk=last_chunk)

    return write


def ask(question: str, *, auth: bool = False) -> AgentStep:
    """Return an item with which the agent asks back: the task is in the state INPUT_REQUIRED.

    It ends the script; the next script answers the next message. With `auth` the state is
    AUTH_REQUIRED.
    """

    async def write(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.ask(question, auth=auth)

    return write


def message(*parts: PartContent) -> AgentStep:
    """Return an item with which the agent answers with a message instead of a task.

    It must be the only item of its script.

    Raises:
        ArgumentError: there is no part, or one has another type.
    """
    dump_parts(parts)

    async def write(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.message(*parts)

    return write


def reject(reason: str) -> AgentStep:
    """Return an item with which the agent refuses: the task is in the state REJECTED."""

    async def write(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.reject(reason)

    return write


def status(text: str) -> AgentStep:
    """Return an item with which the agent sends its state: WORKING, with a message."""

    async def write(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.thought(text)

    return write
