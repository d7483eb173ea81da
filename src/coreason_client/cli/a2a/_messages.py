"""`coreason a2a card`, `send`, `stream` and `chat`."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from .._options import Attach
from .._question import TextArguments, question
from ._agent import AgentOptions
from ._commands import EXAMPLES, AsJson, Force, Save, agent_command, app, run, saved_files

# The A2A client is imported when a command runs, so that other commands start faster.
if TYPE_CHECKING:
    from coreason_client.a2a import A2AClient, Event, Message

    from ._ids import MessageIds


@agent_command(app, EXAMPLES[:1], without=("origins", "extensions"))
def card(agent: AgentOptions, as_json: AsJson = False) -> None:
    """Show the card of an agent: its name, skills and interfaces."""
    from ._connect import fetch_card
    from ._events import show_card

    show_card(fetch_card(agent), as_json=as_json)


TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task", metavar="ID", help="ID of the task to answer.", show_default="a new task"
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="ID",
        help="ID of the conversation to continue.",
        show_default="a new one",
    ),
]


@agent_command(
    app,
    (
        'coreason a2a send https://agent.example "What is the weather in Rome?"',
        'coreason a2a send https://agent.example -a photo.png "What is this?"',
        'coreason a2a send https://agent.example --task 6f1d "The blue one."',
        'coreason a2a send https://agent.example --json "Hello" | jq .task.status',
    ),
)
def send(
    agent: AgentOptions,
    arguments: TextArguments = None,
    attach: Attach = None,
    task_id: TaskOption = None,
    context_id: ContextOption = None,
    save: Save = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Send a message and show the complete answer.

    If the agent asks a question, the last line is the command that answers it.
    """
    message = _message(arguments, attach, context_id, task_id)
    files = saved_files(save, force=force)

    def operation(client: "A2AClient") -> "Iterator[Event]":
        yield client.send_message(message(client))

    run(agent, operation, "send", files, as_json=as_json)


@agent_command(
    app,
    (
        'coreason a2a stream https://agent.example "What is the weather in Rome?"',
        'git diff | coreason a2a stream https://agent.example "Explain this change:"',
        'coreason a2a stream https://agent.example --save out "Draw a cat."',
    ),
)
def stream(
    agent: AgentOptions,
    arguments: TextArguments = None,
    attach: Attach = None,
    task_id: TaskOption = None,
    context_id: ContextOption = None,
    save: Save = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Send a message and show the answer as it arrives.

    A lost connection is replaced, and the stream continues without loss. If the agent asks a
    question, the last line is the command that answers it.
    """
    message = _message(arguments, attach, context_id, task_id)
    files = saved_files(save, force=force)

    def operation(client: "A2AClient") -> "Iterator[Event]":
        return client.send_message_stream(message(client))

    run(agent, operation, "stream", files, as_json=as_json)


@agent_command(
    app,
    (
        "coreason a2a chat https://agent.example",
        "coreason a2a chat https://agent.example --context 8c02",
    ),
)
def chat(
    agent: AgentOptions,
    attach: Attach = None,
    task_id: TaskOption = None,
    context_id: ContextOption = None,
    save: Save = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Have a conversation with an agent.

    If a task needs an answer, the next message is this answer. Ctrl-C stops an answer and cancels
    its task. Files of --attach go with the first message.
    """
    from .._attached import read_attached
    from .._conversation import converse
    from ..exits import ExitCode, Failure
    from ._connect import connect
    from ._ids import MessageIds
    from ._show import AgentPartner

    ids = MessageIds.from_options(context_id, task_id)
    files = saved_files(save, force=force)
    if "-" in (attach or ()):
        raise Failure("--attach -: stdin is the conversation", ExitCode.USAGE)
    attached = read_attached(attach or ())
    with connect(agent) as client:
        ids = _with_context(client, ids)
        partner = AgentPartner(agent, client, ids, as_json=as_json, files=files)
        name = client.card.name if client.card else agent.url
        converse(partner, name, as_json=as_json, attached=attached)


def _message(
    arguments: list[str] | None,
    attached: list[str] | None,
    context_id: str | None,
    task_id: str | None,
) -> "Callable[[A2AClient], Message]":
    """Return a function that returns the message; the text and the files are read at once."""
    from coreason_client.a2a import Part

    from .._text import encodable
    from ._files import attached_parts
    from ._ids import MessageIds

    ids = MessageIds.from_options(context_id, task_id)
    files = attached_parts(attached or ())
    text = question(arguments, optional=bool(files), stdin_is_used="-" in (attached or ()))
    parts = [*([Part(text=encodable(text))] if text else []), *files]
    return lambda client: _with_context(client, ids).message(parts)


def _with_context(client: "A2AClient", ids: "MessageIds") -> "MessageIds":
    """Return the ids with the context of the task, which some agents require."""
    if ids.task_id is None or ids.context_id is not None:
        return ids
    from ._connect import agent_errors

    with agent_errors():
        return ids.of_task(client.get_task(ids.task_id, history_length=0))
