"""The agent behind the peer: the first word of a message says what it does.

hello NAME     a message: "Hello, NAME!"
parts          a message with text, raw bytes, a URL and data
files          a task whose artifact has the files that came with the message
echo WHAT      a message with what the server was told: "tenant", "extensions"
count N        a task whose artifact comes in N chunks of text
hold N         the same, but after the first half it waits for "release TASK"
release TASK   a message, and the task goes on
ask            a task that needs an input, and completes with the answer to it
login          a task that needs a credential
fail, reject   a task that ends that way
raise          an exception that the agent does not handle
wait           a task that works until it is cancelled
"""

import asyncio
from collections.abc import Awaitable, Callable

from a2a.helpers import (
    new_data_part,
    new_message,
    new_raw_part,
    new_task_from_user_message,
    new_text_message,
    new_text_part,
    new_url_part,
)
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater

from tests.a2a.peer.facts import ARTIFACT, DATA, LINK, PICTURE, chunks

FILES = ("raw", "url")


class Turn:
    """One message to the agent, and the means to answer it."""

    def __init__(self, context: RequestContext, queue: EventQueue, argument: str) -> None:
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        self.context = context
        self.argument = argument
        self._message = context.message
        self._queue = queue
        self.task_id = context.task_id
        self.context_id = context.context_id
        self.task = TaskUpdater(queue, self.task_id, self.context_id)

    async def say(self, text: str) -> None:
        """Answer with a message and nothing else."""
        await self._queue.enqueue_event(new_text_message(text, context_id=self.context_id))

    async def show(self) -> None:
        """Answer with a message that has a part of each kind."""
        parts = [
            new_text_part("See:"),
            new_raw_part(PICTURE, media_type="image/png", filename="picture.png"),
            new_url_part(LINK, media_type="image/png", filename="picture.png"),
            new_data_part(DATA),
        ]
        await self._queue.enqueue_event(new_message(parts, context_id=self.context_id))

    async def start(self) -> None:
        """Make it a task that is being worked on."""
        if self.context.current_task is None:
            await self._queue.enqueue_event(new_task_from_user_message(self._message))
        await self.task.start_work()

    async def write(self, pieces: list[str], *, first: bool = True, last: bool = True) -> None:
        """Send pieces of the artifact; `first` and `last` tell whether they are all there is."""
        for number, piece in enumerate(pieces):
            await self.task.add_artifact(
                [new_text_part(piece)],
                artifact_id=ARTIFACT,
                name="answer.txt",
                append=number > 0 or not first,
                last_chunk=last and number == len(pieces) - 1,
            )

    async def give_back(self) -> None:
        """Send an artifact with the files of the message."""
        files = [part for part in self._message.parts if part.WhichOneof("content") in FILES]
        await self.task.add_artifact(files, artifact_id=ARTIFACT, last_chunk=True)

    async def finish(self, end: Callable[..., Awaitable[None]], text: str | None = None) -> None:
        """Set the last state, with a message."""
        message = None if text is None else self.task.new_agent_message([new_text_part(text)])
        await end(message=message)


class Agent(AgentExecutor):
    """Does what it is told."""

    def __init__(self) -> None:
        self._gates: dict[str, asyncio.Event] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        word, _, argument = context.get_user_input().partition(" ")
        if context.current_task is not None:
            word, argument = "continue", context.get_user_input()
        turn = Turn(context, event_queue, argument)
        verbs: dict[str, Callable[[Turn], Awaitable[None]]] = {
            "hello": self._hello,
            "parts": self._parts,
            "files": self._files,
            "echo": self._echo,
            "count": self._count,
            "hold": self._hold,
            "release": self._release,
            "ask": self._ask,
            "continue": self._continue,
            "login": self._login,
            "fail": self._fail,
            "reject": self._reject,
            "raise": self._raise,
            "wait": self._wait,
        }
        await verbs[word](turn)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    async def _hello(self, turn: Turn) -> None:
        await turn.say(f"Hello, {turn.argument}!")

    async def _parts(self, turn: Turn) -> None:
        await turn.show()

    async def _files(self, turn: Turn) -> None:
        await turn.start()
        await turn.give_back()
        await turn.finish(turn.task.complete)

    async def _echo(self, turn: Turn) -> None:
        known = {
            "tenant": turn.context.tenant,
            "extensions": " ".join(sorted(turn.context.requested_extensions)),
        }
        await turn.say(known[turn.argument] or "nothing")

    async def _count(self, turn: Turn) -> None:
        await turn.start()
        await turn.write(chunks(int(turn.argument)))
        await turn.finish(turn.task.complete)

    async def _hold(self, turn: Turn) -> None:
        gate = self._gates.setdefault(turn.task_id, asyncio.Event())
        pieces = chunks(int(turn.argument))
        half = len(pieces) // 2
        await turn.start()
        await turn.write(pieces[:half], last=False)
        await gate.wait()
        await turn.write(pieces[half:], first=False)
        await turn.finish(turn.task.complete)

    async def _release(self, turn: Turn) -> None:
        self._gates.setdefault(turn.argument, asyncio.Event()).set()
        await turn.say("Released.")

    async def _ask(self, turn: Turn) -> None:
        await turn.start()
        await turn.finish(turn.task.requires_input, "Which colour?")

    async def _continue(self, turn: Turn) -> None:
        await turn.start()
        await turn.write([f"You said {turn.argument}."])
        await turn.finish(turn.task.complete, "Thank you.")

    async def _login(self, turn: Turn) -> None:
        await turn.start()
        await turn.finish(turn.task.requires_auth, "Who are you?")

    async def _fail(self, turn: Turn) -> None:
        await turn.start()
        await turn.finish(turn.task.failed, "It broke.")

    async def _reject(self, turn: Turn) -> None:
        await turn.start()
        await turn.finish(turn.task.reject, "Not for me.")

    async def _raise(self, turn: Turn) -> None:
        message = f"cannot {turn.argument}"
        raise RuntimeError(message)

    async def _wait(self, turn: Turn) -> None:
        await turn.start()
        await asyncio.Event().wait()
