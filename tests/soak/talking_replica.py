"""One replica whose durable agent asks, listens and takes turns; its effects are in a file.

The session of a request says what the agent does. Arguments: port, options as JSON, file of notes.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coreason_client.agents.llm import llm_agent
from coreason_client.llm import Response, Tool
from coreason_client.server import AgentApp, AgentStream, InboxMessage, serve
from coreason_manifest.definitions.message import Role
from coreason_manifest.definitions.service import ServiceRequest

from ..llm.tools.answers import response
from ..llm.tools.scripted import Model
from .logs import NotingLog, make_noting_log
from .options import AGENT_ID, ReplicaOptions
from .replica import HEARTBEAT, DurableAgent, leave_with_parent
from .talking_tally import APPROVAL, BEGIN, CALLED, END, INBOX, NOTHING, ORDER, PAY, UNREAD, echo

PROGRAM = "tests.soak.talking_replica"
EFFECTS = "effects"
_CALL_SECONDS = 0.3
_WORK_SECONDS, _WORK_PARTS = 0.1, 4
_LOOK_EVERY = 0.2


class PayingModel(Model):
    """Calls the tool if it is asked to, and says what came of it."""

    async def generate(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Response:
        last = messages[-1]
        if last["role"] == "tool":
            return response(content=f"{last['content']}.")
        kind, _, name = str(last["content"]).partition(" ")
        if kind == PAY:
            return response((PAY, {"name": name}))
        return response(content=NOTHING)


class TalkingAgent(DurableAgent):
    """Asks for approvals, repeats messages or takes turns; any other request is one of faults."""

    def __init__(self, log: NotingLog, effects: Path) -> None:
        super().__init__(log)
        self._effects = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        client: Any = PayingModel()
        tool = Tool(self._pay, name=PAY, requires_approval=True)
        self._pays = llm_agent("m", client=client, tools=[tool])

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        kind = request.context.session_id.partition("-")[0]
        if kind == APPROVAL:
            by_hand = int(request.context.session_id.rpartition("-")[2]) // 4 % 2
            await (self._pays_by_hand if by_hand else self._pays)(request, stream)
        elif kind == INBOX:
            if stream.question.startswith(UNREAD):
                await self._repeat(request, stream)
            else:
                await self._listen(stream, *stream.question.split())
        elif kind == ORDER:
            await self._take_turn(stream)
        else:
            await super().__call__(request, stream)

    def _note(self, kind: str, name: str, at: float) -> None:
        """Write one line with one call, so that it is complete or absent after a kill."""
        line = json.dumps({"kind": kind, "name": name, "at": at, "pid": os.getpid()})
        os.write(self._effects, f"{line}\n".encode())

    async def _pay(self, name: str) -> str:
        """Pay something."""
        self._note(CALLED, name, time.monotonic())
        await asyncio.sleep(_CALL_SECONDS)
        return f"Paid {name}"

    async def _pays_by_hand(self, request: ServiceRequest, stream: AgentStream) -> None:
        """Do what the model does, as a function that asks in its middle."""
        kind, _, name = stream.question.partition(" ")
        if kind != PAY:
            await stream.write(NOTHING)
            return
        answered = await stream.approve(PAY, {"name": name})
        if not answered.approved:
            await stream.write(f"Not paid: {answered.reason}.")
            return
        name = (answered.arguments or {"name": name})["name"]
        result = await stream.step("pay", self._pay, name, on_restart="fail")
        await stream.tool_result(answered.call_id or "", result)
        await stream.write(f"{result}.")

    async def _listen(self, stream: AgentStream, reads: str, ends: str, most: str) -> None:
        """Repeat so many messages, and end in one of three ways."""

        async def take() -> InboxMessage:
            return await anext(stream.inbox)

        await stream.write("ready ")
        number = 0
        while number < int(most):
            if reads == "looks":
                found = await stream.inbox.waiting()
            else:
                found = [await (stream.step("take", take) if reads == "steps" else take())]
            for message in found:
                await stream.write(echo(message.id, message.text))
            number += len(found)
            await asyncio.sleep(_LOOK_EVERY)
        if ends == "asks":
            await stream.ask("More?")
        elif ends == "fails":
            await stream.fail("enough", "That was enough.")

    async def _repeat(self, request: ServiceRequest, stream: AgentStream) -> None:
        """Repeat messages that an earlier turn did not read, and which are this one."""
        for message in request.payload.messages or []:
            await stream.write(f"{message.text} ")

    async def _take_turn(self, stream: AgentStream) -> None:
        """Work for a while, in some packets.

        What is noted was stored, so a process that has lost the stream notes nothing.
        """
        name = stream.question
        earlier = [one.text for one in await stream.history() if one.role is Role.USER]
        await stream.progress(BEGIN, 0)
        self._note(BEGIN, name, time.monotonic())
        await stream.write(" ".join([name, *earlier]))
        for part in range(_WORK_PARTS):
            await asyncio.sleep(_WORK_SECONDS)
            await stream.progress(f"part {part}")
        ended = time.monotonic()
        await stream.progress(END, 100)
        self._note(END, name, ended)


def main(port: str, options_json: str, notes: str) -> None:
    options = ReplicaOptions.parse(options_json)
    leave_with_parent()
    log = make_noting_log(options, notes)
    file = Path(notes)
    app = AgentApp(
        TalkingAgent(log, file.with_name(f"{EFFECTS}-{file.name}")),
        log=log,
        agent_id=AGENT_ID,
        heartbeat=HEARTBEAT,
        drain_timeout=options.drain_timeout,
        durable=True,
        inbox=True,
        on_busy="wait",
    )
    serve(app, port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
