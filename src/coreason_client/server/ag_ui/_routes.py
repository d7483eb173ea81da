"""The routes of AG-UI and their handlers."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..http._admission import Admitted
from ..http._answers import AnswerRoutes, AnswerStream, feed_up_to
from ..http._cursor import parse_cursor
from ..http._hosts import route_table
from ..http._problems import Problem
from . import AGUI
from ._request import RunRequest, find_run
from ._writer import START, RunWriter


class AGUIRoutes(AnswerRoutes[AGUI]):
    """The handlers."""

    def table(self) -> list[Route]:
        """Return the routes."""
        path = self._settings.path
        run = {"POST"}, path, self.run
        cancel = {"DELETE"}, f"{path}/runs/{{run_id}}", self.cancel
        return route_table([run, cancel])

    async def run(self, request: Request) -> Response:
        """Start, join or resume a run; the response is a stream whatever the request accepts."""
        asked = RunRequest(request, self._gate.options)
        detail = "The run has expired: the server keeps it only for some time after its end."
        expired = Problem(410, "run-expired", detail)
        admitted = await self._admit_once(asked, asked.conflict, expired)
        after = admitted.after.seq if admitted.resumes else None
        return await self._with_reader(admitted, self._response(admitted, asked), after)

    async def _response(self, admitted: Admitted, asked: RunRequest) -> AnswerStream:
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
