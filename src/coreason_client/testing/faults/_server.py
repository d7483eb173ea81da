"""An HTTP/1.1 server on loopback that answers with faults, in its own thread.

It uses no HTTP library: each byte, each FIN and each RST is written here, so a
test knows exactly what its client received.
"""

import asyncio
import threading
import uuid
from collections.abc import Mapping
from typing import Any, Self

from ...errors import ArgumentError
from .._loopback import ServerThread
from . import _connection_faults, _content_faults  # noqa: F401 - they fill `FAULTS`
from . import _wire as wire
from ._exchange import BadCursorError, Connection, FaultExchange
from ._logs import LogPlan
from ._run import FaultRun
from ._table import FAULTS, find_fault
from ._wire import File

__all__ = ["FAULTS", "FaultServer"]


class FaultServer:
    """A server on loopback whose streams have a fault; use it as a context manager.

    It works without an event loop of the test's own: one thread serves all connections.

    Args:
        timeout: the seconds after which a silent client is given up.
        debug: whether the event loop of the server runs in debug mode.
        keep_alive: whether a connection can be used for several requests.
        files: files for a browser, by path, at the same origin as the streams.

    Raises:
        ExceptionGroup: at the end of the block, if the server itself has failed.
    """

    def __init__(
        self,
        *,
        timeout: float = 60.0,
        debug: bool = False,
        keep_alive: bool = True,
        files: Mapping[str, File] | None = None,
    ) -> None:
        self._timeout = timeout
        self._keep_alive = keep_alive
        self._files = files or {}
        self._debug = debug
        self._runs: dict[str, FaultRun] = {}
        self._errors: list[Exception] = []
        self._lock = threading.Lock()
        self._origins: tuple[str, str] = ("", "")
        self._thread: ServerThread | None = None
        self._accepted = 0

    @property
    def origin(self) -> str:
        """The origin of every `base_url`."""
        return self._origins[0]

    @property
    def other_origin(self) -> str:
        """A second origin that serves the same runs."""
        return self._origins[1]

    @property
    def errors(self) -> list[Exception]:
        """Errors of the server itself, in any run or outside of them."""
        with self._lock:
            return [*self._errors, *(error for run in self._runs.values() for error in run.errors)]

    def run(
        self,
        name: str,
        *,
        packets: int = 20,
        fault_after: int | None = None,
        text: str = "w{n} ",
        **options: Any,
    ) -> FaultRun:
        """Add a stream with a fault; its `base_url` is for a client.

        Args:
            name: the name of the fault, one of `FAULTS`.
            packets: the number of packets with text; a CLOSE follows them.
            fault_after: the number of packets before the fault, by default 8 or all of them.
            text: the text of each packet; `{n}` is replaced by its number.
            options: options of the fault: `times` and `every` for most, and its own.

        Raises:
            ArgumentError: there is no such fault, or an argument has an invalid value.
            TypeError: the fault does not have this option.
            RuntimeError: the server is not running.
        """
        found = find_fault(name)
        after = min(8, packets) if fault_after is None else fault_after
        if not 0 <= after <= packets + 1:
            raise ArgumentError("fault_after", f"must be from 0 to {packets + 1}", fault_after)
        if self._thread is None:
            raise RuntimeError("the fault server is not running: use `with FaultServer() as …`")
        with self._lock:
            number = len(self._runs) + 1
            stream_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"fault:{number}:{name}"))
            plan = LogPlan(stream_id, packets, after, text)
            run = FaultRun(found, number, self._origins, plan, options)
            self._runs[run.id] = run
        return run

    def __enter__(self) -> Self:
        """Listen and start the thread."""
        self._thread = ServerThread("fault-server", self._converse, ports=2, debug=self._debug)
        first, second = self._thread.urls
        self._origins = (first, second)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Stop; raise the errors of the server, because a fault that failed proves nothing."""
        if self._thread is not None and not self._thread.stop():
            raise RuntimeError("the fault server did not stop")
        if error is None and (errors := self.errors):
            raise ExceptionGroup("the fault server failed", errors)

    # In the thread.

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        self._accepted += 1
        port = writer.get_extra_info("sockname")[1]
        origin = next(origin for origin in self._origins if origin.endswith(f":{port}"))
        connection = Connection(reader, writer, origin, self._accepted, self._timeout)
        try:
            while await self._answer(connection):
                pass
            connection.fin()
            if connection.is_open:
                await connection.until_gone()
        except ConnectionError:
            pass
        except Exception as error:  # noqa: BLE001 - a failure of a fault, reported to the test
            self._note(connection.run, error)
        finally:
            connection.close()

    async def _answer(self, connection: Connection) -> bool:
        """Answer one request; return True if the connection can be used again."""
        try:
            request = await connection.read_request()
        except TimeoutError:
            return False  # an idle connection
        run = self._runs.get(request.target.lstrip("/").partition("/")[0])
        if run is None:
            await connection.send(wire.file_response(self._files.get(request.target)))
            return self._keep_alive and request.keep_alive
        connection.attach(run)
        exchange = FaultExchange(connection, run, request)
        run.record.add("answering", 1)
        try:
            await run.fault.play(exchange)
        except BadCursorError as error:
            if exchange.answered:
                raise
            await exchange.respond(400, f"not a position of this stream: {error}".encode())
        finally:
            run.record.add("answering", -1)
        return exchange.complete and self._keep_alive and request.keep_alive

    def _note(self, run: FaultRun | None, error: Exception) -> None:
        if run is not None:
            run.record.add_error(error)
        else:
            with self._lock:
                self._errors.append(error)
