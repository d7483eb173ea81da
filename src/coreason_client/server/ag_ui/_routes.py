"""The routes of AG-UI and their handlers."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..engine._runtime import Runtime
from ..errors import RequestConflict
from ..http._admission import Admission, Admitted
from ..http._answers import AnswerStream, feed_up_to
from ..http._cursor import parse_cursor
from ..http._gate import Gate
from ..http._hosts import RouteEntry, route_table
from ..http._problems import Problem
from ..observe import _log_lines
from . import AGUI
from ._request import CONFLICT, RunRequest, find_run
from ._writer import START, RunWriter

__all__ = ["AGUIRoutes"]


class AGUIRoutes:
    """The handlers; `runtime` returns the runtime of this event loop."""

    def __init__(
        self, settings: AGUI, gate: Gate, runtime: Callable[[], Awaitable[Runtime]]
    ) -> None:
        self._settings = settings
        self._gate = gate
        self._runtime = runtime
        self._admission = Admission(gate, runtime)

    def table(self) -> list[Route]:
        """Return the routes."""
        path = self._settings.path
        paths: list[RouteEntry] = [
            ({"POST"}, path, self.run),
            ({"DELETE"}, f"{path}/runs/{{run_id}}", self.cancel),
        ]
        return route_table(paths)

    async def run(self, request: Request) -> Response:
        """Start, join or resume a run; the response is a stream whatever the request accepts."""
        asked = RunRequest(request, self._gate.options)
        admitted = await self._admit(asked)
        try:
            response = await self._response(admitted, asked)
            admitted.runtime.producers.add_reader(admitted.meta, admitted.reader)
        finally:
            admitted.reader.release()  # unless it was handed on
        if admitted.resumes:
            admitted.runtime.producers.metrics.resumed()
            _log_lines.resumed(admitted.meta, admitted.after.seq)
        return response

    async def _admit(self, asked: RunRequest) -> Admitted:
        try:
            admitted = await self._admission.admit(asked)
        except (RequestConflict, Problem) as error:
            if isinstance(error, Problem) and error.slug != CONFLICT:
                raise
            raise asked.conflict() from None
        if admitted.meta.body_gone:
            admitted.reader.release()
            detail = "The run has expired: the server keeps it only for some time after its end."
            raise Problem(410, "run-expired", detail)
        return admitted

    async def _response(self, admitted: Admitted, asked: RunRequest) -> Response:
        runtime, meta, position = admitted.runtime, admitted.meta, asked.position
        joins = meta.last_seq > 0 if position is None else position.is_join
        after = START if joins or position is None else (position.cursor.seq, position.number)
        writer = RunWriter(meta.stream_id, asked.run, self._settings, after)
        pending: list[bytes] = []
        if joins:
            writer.begin_snapshot()
        else:
            pending.append(writer.start())
        seq = meta.last_seq if position is None else position.cursor.seq
        pending += await feed_up_to(runtime.log, meta, writer, seq)
        read = parse_cursor(writer.packet_id)
        if joins:
            pending.append(writer.end_snapshot(-1 if position is None else position.number))
        return AnswerStream(runtime, meta, writer, after=read, pending=b"".join(pending))

    async def cancel(self, request: Request) -> Response:
        """Cancel a run; repeated calls change nothing."""
        principal = await self._gate.principal_in_turn(request)
        runtime = await self._runtime()
        meta = await find_run(runtime.log, principal, request.path_params["run_id"])
        if meta is None:
            raise Problem(404, "run-not-found", "There is no such run.")
        await runtime.producers.cancel(meta)
        return Response(status_code=204)
