"""A server whose agent asks before it deletes, in this process or in a separate one.

Arguments of the separate process: the file of the log, that of what was deleted, and `durable` if
the agent is a function that asks with `stream.approve`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coreason_client.agents.llm import llm_agent
from coreason_client.llm import Tool
from coreason_client.server import (
    AgentApp,
    AgentStream,
    ServiceRequest,
    SQLiteStreamLog,
    running,
)
from coreason_client.server.a2a import A2A
from tests.llm.tools.answers import response
from tests.llm.tools.scripted import Model
from tests.preloaded import PROJECT, PipedProcess

LIMIT = 10.0
QUESTION = 'May I call delete with {"path":"x"}?'
ANSWER = "All done."
KEY = "ann-key"


class Server:
    """A process that can be killed and started again on the same files."""

    def __init__(self, folder: Path, *kind: str) -> None:
        self._kind = kind
        self._log, self._deleted = folder / "log.db", folder / "deleted"
        self._deleted.touch()
        self._process: PipedProcess | None = None
        self.url = ""

    def start(self) -> None:
        self._process = PipedProcess(
            ["-m", "tests.agents.approving", str(self._log), str(self._deleted), *self._kind],
            libraries=(*PROJECT, "grpc.aio"),
        )
        self.url = self._process.line()

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait for its end."""
        if self._process is not None:
            self._process.close(LIMIT)
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def deleted(self) -> list[str]:
        """Return what was deleted since the last call."""
        found = self._deleted.read_text().split()
        self._deleted.write_text("")
        return found


@contextmanager
def approving(folder: Path, *kind: str) -> Iterator[Server]:
    """Run the server in a separate process."""
    server = Server(folder, *kind)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def main(log: str, deleted: str, kind: str = "") -> None:
    def delete(path: str) -> str:
        """Delete a file."""
        with Path(deleted).open("a") as file:
            file.write(f"{path}\n")
        return f"deleted {path}"

    async def function(_: ServiceRequest, stream: AgentStream) -> str:
        answered = await stream.approve("delete", {"path": "x"})
        assert answered.approved
        result = await stream.step("delete", delete, "x", on_restart="fail")
        await stream.tool_result(answered.call_id or "", result)
        return ANSWER

    client: Any = Model(response(("delete", {"path": "x"})), response(content=ANSWER))
    agent = llm_agent("m", client=client, tools=[Tool(delete, requires_approval=True)])
    app = AgentApp(
        function if kind else agent,
        durable=bool(kind),
        log=SQLiteStreamLog(log, lease=2.0),
        agent_id="agent",
        api_keys={KEY: "ann"},
        a2a=A2A(grpc_address="127.0.0.1:0"),
        ai_sdk=True,
        ag_ui=True,
    )
    with running(app) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
