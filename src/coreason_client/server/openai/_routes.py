"""The routes of the OpenAI-compatible API and their handlers."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar
from uuid import UUID

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..answer._entries import has_rewind
from ..answer._writer import Writer
from ..engine._conversation import question_of
from ..engine._runtime import Runtime
from ..errors import UnknownStream
from ..http._admission import Admitted, StreamRequest, owned
from ..http._answers import CONFLICT, AnswerRoutes, AnswerStream, load_entries, resumed, write_all
from ..http._chat_body import bad_request
from ..http._decision import RequestFacts
from ..http._gate import Gate
from ..http._hosts import RouteEntry, route_table
from ..http._problems import Problem
from ..http._stream_response import while_connected
from ..log.base import StreamMeta
from . import Model, OpenAIAPI
from ._chat import ChatWriter
from ._messages import input_item
from ._request import ChatRequest, ResponsesRequest, unknown_model
from ._responses import ResponseWriter
from ._stored import asked_of, delete_turns, is_deleted, load_turns, response_id, stream_of
from ._wire import REWOUND, failed_answer, input_not_stored, unknown_response

T = TypeVar("T")
W = TypeVar("W", bound=Writer)

_OWNER: Final = "coreason"


class OpenAIRoutes(AnswerRoutes[OpenAIAPI]):
    """The handlers; the agent is a model."""

    def __init__(
        self, settings: OpenAIAPI, gate: Gate, runtime: Callable[[], Awaitable[Runtime]]
    ) -> None:
        super().__init__(settings, gate, runtime)
        self._model = Model(gate.options.agent_id, gate.options, settings)

    def table(self) -> list[Route]:
        """Return the routes."""
        response = "/v1/responses/{response_id}"
        paths: list[RouteEntry] = [
            ({"GET"}, "/v1/models", self.models),
            ({"GET"}, "/v1/models/{model:path}", self.model),
            ({"POST"}, "/v1/chat/completions", self.chat),
            ({"POST"}, "/v1/responses", self.create),
            ({"POST"}, f"{response}/cancel", self.cancel),
            ({"GET"}, f"{response}/input_items", self.input_items),
            ({"GET", "DELETE"}, response, self.response),
        ]
        return route_table(paths, with_slash=False)

    # Models.

    async def models(self, request: Request) -> Response:
        """List the agent as a model."""
        self._gate.principal(request)
        return JSONResponse({"object": "list", "data": [describe(self._model.name)]})

    async def model(self, request: Request) -> Response:
        """Describe the agent as a model."""
        self._gate.principal(request)
        if request.path_params["model"] != self._model.name:
            raise unknown_model(self._model.name)
        return JSONResponse(describe(self._model.name))

    # Answers.

    async def chat(self, request: Request) -> Response:
        """Answer a chat."""
        asked = ChatRequest(request, self._model)
        admitted = await self._admit(asked)
        meta, model = admitted.meta, self._model.name
        if asked.asked.streams:
            writer = ChatWriter(meta, model, includes_usage=asked.asked.includes_usage)
            return self._stream(admitted, writer, on_written=self._written(meta))
        written = await self._whole(request, admitted, lambda: ChatWriter(meta, model))
        if written is None:
            return Response(status_code=499)
        if written.finished.error is not None:
            raise failed_answer(written.finished.error)
        return self._json(admitted.meta, written.completion())

    async def create(self, request: Request) -> Response:
        """Create a response."""
        asked = ResponsesRequest(request, self._model)
        admitted = await self._admit(asked)
        meta = admitted.meta
        if asked.asked.streams:
            writer = self._response_writer(meta)
            return self._stream(admitted, writer, on_written=self._written(meta))
        if asked.asked.in_background:
            return await self._as_it_stands(admitted)
        written = await self._whole(request, admitted, lambda: self._response_writer(meta))
        if written is None:
            return Response(status_code=499)
        return self._json(admitted.meta, written.response())

    async def _admit(self, asked: StreamRequest) -> Admitted:
        detail = "The answer has expired: the server keeps it only for some time after its end."
        expired = Problem(404, "response-expired", detail)
        return await self._admit_once(asked, _used_key, expired)

    def _written(self, meta: StreamMeta) -> Callable[[], None]:
        return lambda: self._model.repeats.written(meta.stream_id)

    async def _whole(self, request: Request, admitted: Admitted, make: Callable[[], W]) -> W | None:
        """Return the writer after the end of the answer, None if the client has left."""
        runtime, meta = admitted.runtime, admitted.meta
        runtime.producers.add_reader(meta, admitted.reader)
        try:
            work = write_all(runtime, meta, make, waits=True)
            return await while_connected(request.scope, request.receive, work)
        finally:
            runtime.producers.remove_reader(meta)

    def _json(self, meta: StreamMeta, value: dict[str, Any]) -> Response:
        self._model.repeats.written(meta.stream_id)
        headers = {"X-Request-ID": str(meta.request_id), "X-Stream-ID": str(meta.stream_id)}
        return JSONResponse(value, headers=headers)

    def _response_writer(self, meta: StreamMeta, after: int = -1) -> ResponseWriter:
        return ResponseWriter(meta, self._model.name, self._settings.max_tool_result, after=after)

    # Stored responses.

    async def response(self, request: Request) -> Response:
        """Return a response, as it stands or as a stream, or delete it."""
        if request.method == "DELETE":
            return await self._delete(request)
        asked = _ReadRequest(request)
        admitted = await _known(self._admit(asked))
        after = asked.after
        if after is None:
            return await self._as_it_stands(admitted)
        work = self._resumed(admitted.runtime, admitted.meta, after)
        response = await self._with_reader(admitted, work, after)
        if response is None:
            raise _no_event(after)
        return response

    async def _resumed(self, runtime: Runtime, meta: StreamMeta, after: int) -> AnswerStream | None:
        await _check_exists(runtime, meta)
        await _check_no_rewind(runtime, meta)
        return await resumed(runtime, meta, self._response_writer(meta, after), after)

    async def _as_it_stands(self, admitted: Admitted) -> Response:
        """Return the object of a response, which may still be in progress."""
        try:
            await _check_exists(admitted.runtime, admitted.meta)
            return await self._snapshot(admitted.runtime, admitted.meta)
        finally:
            admitted.reader.release()

    async def _snapshot(self, runtime: Runtime, meta: StreamMeta) -> Response:
        written = await write_all(runtime, meta, lambda: self._response_writer(meta), waits=False)
        return self._json(meta, written.response())

    async def cancel(self, request: Request) -> Response:
        """Cancel a response."""
        runtime, meta = await self._owned(request)
        await runtime.producers.cancel(meta)
        return await self._snapshot(runtime, meta)

    async def _delete(self, request: Request) -> Response:
        runtime, meta = await self._owned(request)
        await runtime.producers.cancel(meta)
        await delete_turns(runtime.log, meta)
        return JSONResponse(
            {"id": response_id(meta.stream_id), "object": "response.deleted", "deleted": True}
        )

    async def input_items(self, request: Request) -> Response:
        """Return the input of a response."""
        runtime, meta = await self._owned(request)
        producer = runtime.producers.get(meta.stream_id)
        if producer is not None:
            messages = question_of(meta.principal, producer.request).messages
        else:
            turns = await load_turns(runtime.log, meta.principal, meta.stream_id)
            if turns is None:
                raise input_not_stored()
            messages = asked_of(turns[-1])
        name = f"msg_in_{meta.stream_id.hex}"
        items = [input_item(one, f"{name}_{index}") for index, one in enumerate(messages)]
        ids = {
            "first_id": items[0]["id"] if items else None,
            "last_id": items[-1]["id"] if items else None,
        }
        return JSONResponse({"object": "list", "data": items, **ids, "has_more": False})

    async def _owned(self, request: Request) -> tuple[Runtime, StreamMeta]:
        """Return the stream of the path, if the request may use it.

        Raises:
            Problem: 401 or 404.
        """
        principal = await self._gate.principal_in_turn(request)
        stream_id = _stream_in_path(request)
        runtime = await self._runtime()
        meta = await _known(owned(runtime, principal, stream_id))
        await _check_exists(runtime, meta)
        return runtime, meta


class _ReadRequest(StreamRequest):
    """A `GET /v1/responses/{response_id}`; `after` is set once the key of the request is known."""

    after: int | None
    """The number after which events are wanted, None if no stream is wanted."""

    def facts(self, principal: str) -> RequestFacts:
        """Return the stream of the path; nothing is said about it without a key."""
        stream_id = _stream_in_path(self.http)
        self.after = _starting_after(self.http)
        return RequestFacts(principal, reads=stream_id)


async def _check_exists(runtime: Runtime, meta: StreamMeta) -> None:
    if await is_deleted(runtime.log, meta.principal, meta.stream_id):
        raise unknown_response()


async def _check_no_rewind(runtime: Runtime, meta: StreamMeta) -> None:
    """Refuse to stream an answer of which words were taken back; only a later epoch does that.

    Raises:
        Problem: 409.
    """
    if not meta.epochs or meta.outcome is None:
        return
    if has_rewind(await load_entries(runtime.log, meta.stream_id)):
        raise Problem(409, REWOUND["code"], REWOUND["message"])


def _used_key() -> Problem:
    detail = "The Idempotency-Key was used before with another body: use a new key for a new body."
    return Problem(409, CONFLICT, detail)


def _no_event(after: int) -> Problem:
    detail = (
        f"This response has no event {after}, or another one may have its number by now: read it "
        "without starting_after."
    )
    errors = [{"loc": ["starting_after"], "msg": detail}]
    return Problem(410, "position-gone", detail, errors=errors)


async def _known(work: Awaitable[T]) -> T:
    try:
        return await work
    except UnknownStream:
        raise unknown_response() from None


def describe(model: str) -> dict[str, Any]:
    """Return the description of a model."""
    return {"id": model, "object": "model", "created": 0, "owned_by": _OWNER}


def _stream_in_path(request: Request) -> UUID:
    stream_id = stream_of(request.path_params["response_id"])
    if stream_id is None:
        raise unknown_response()
    return stream_id


def _starting_after(request: Request) -> int | None:
    """Return the number after which events are wanted, None if no stream is wanted."""
    query = request.query_params
    streams, after = query.get("stream", "false"), query.get("starting_after")
    if streams not in ("true", "false"):
        raise bad_request("stream", "stream must be true or false.")
    if after is not None and not (after.isascii() and after.isdecimal() and len(after) <= 16):
        raise bad_request("starting_after", "starting_after must be the number of an event.")
    if streams == "false":
        return None
    return -1 if after is None else int(after)
