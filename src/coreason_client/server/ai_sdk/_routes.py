"""The routes for pages that use the AI SDK, and their handlers.

An answer is read in two ways. By its chat: the answer that is running, from the beginning of its
message, for a page that was loaded again; with `ended=true` also one that has ended, for a page
that has not seen the end. By its run and the number of a chunk: the rest, for a transport that lost
its connection.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..answer._entries import valid_entries
from ..engine._runtime import Runtime
from ..errors import PositionGone, UnknownStream
from ..http._admission import StreamRequest, owned
from ..http._answers import AnswerRoutes, AnswerStream, feed_up_to, load_entries, resumed
from ..http._chat_body import bad_request
from ..http._chats import Chat, Note, stream_in
from ..http._hosts import route_table
from ..http._problems import Problem, too_many_requests
from ..log.base import StreamLog, StreamMeta
from . import AISDK, facts_in
from ._request import PROTOCOL, PageRequest, check_chat_id
from ._writer import FINISH_ALONE, ChunkWriter, Earlier

_HEADERS: Final = {"x-vercel-ai-ui-message-stream": "v1"}
_TAIL: Final = "x-workflow-stream-tail-index"
_INDEX = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_MAX_CHUNKS: Final = 10**15  # no answer has more
_MIN_SECRET: Final = 16  # characters of the id of a chat that anybody may ask for


class AISDKRoutes(AnswerRoutes[AISDK]):
    """The handlers."""

    def table(self) -> list[Route]:
        """Return the routes."""
        path = self._settings.path
        chat = {"POST"}, path, self.chat
        stream = {"GET", "DELETE"}, f"{path}/{{chat_id}}/stream", self.stream
        return route_table([chat, stream])

    async def chat(self, request: Request) -> Response:
        """Answer a message, or join the answer to it."""
        admitted = await self._admission.admit(PageRequest(request, self._gate.options))
        meta = admitted.meta
        facts = facts_in(meta.fingerprint)
        assert facts is not None  # noqa: S101 - the stream was opened for such a request
        writer = ChunkWriter(meta.stream_id, facts, self._settings.max_tool_result)
        return self._stream(admitted, writer, _headers(meta))

    async def stream(self, request: Request) -> Response:
        """Read the answer of a chat or of a run, or stop it."""
        if request.method == "DELETE":
            return await self._stop(request)
        start = _start_index(request)
        stream_id = stream_in("run", request.path_params["chat_id"])
        if stream_id is not None:
            return await self._read(request, stream_id, start or 0, earlier=None)
        found = await self._in_chat(request)
        is_rest = start is not None and start > 0
        if found is None or not (is_rest or _may_be_read(request, found.newest)):
            return _nothing(start)
        if is_rest and found.has_several:
            raise _several_answers()
        earlier = await found.earlier()
        if earlier is None:
            return _nothing(start)
        return await self._read(request, found.newest.stream_id, start or 0, earlier)

    async def _read(
        self, request: Request, stream_id: UUID, start: int, earlier: Sequence[Earlier] | None
    ) -> Response:
        """Return the chunks from a number on, a negative one being counted from the end."""
        admitted = await self._admission.admit(StreamRequest(request, stream_id))
        work = self._resumed(admitted.runtime, admitted.meta, start, earlier)
        return await self._with_reader(admitted, work, start) or _all_read()

    async def _resumed(
        self, runtime: Runtime, meta: StreamMeta, start: int, earlier: Sequence[Earlier] | None
    ) -> AnswerStream | None:
        """Return the chunks from a number on, None if the client has all of them.

        Raises:
            Problem: 410.
            LogError: the log does not answer.
        """
        facts = facts_in(meta.fingerprint)
        if facts is None:
            raise UnknownStream(meta.stream_id)  # of another protocol
        if meta.body_gone:
            raise PositionGone(meta.stream_id, 0)
        most = self._settings.max_tool_result
        new_writer = partial(ChunkWriter, meta.stream_id, facts, most, earlier=earlier)
        headers = _headers(meta)
        if start < 0:
            counted = new_writer(after=_MAX_CHUNKS)  # it only counts
            counted.start()
            await feed_up_to(runtime.log, meta, counted, meta.last_seq)
            headers[_TAIL] = str(counted.number - 1)
            start = max(counted.number + start, 0)
        response = await resumed(runtime, meta, new_writer(after=start - 1), start - 1, headers)
        if response is None and (meta.outcome is None or runtime.log.may_forget):
            detail = f"This answer has no chunk {start}, or another one may have its number by now."
            raise Problem(410, "position-gone", f"{detail} Load the page again.")
        return response

    async def _stop(self, request: Request) -> Response:
        """Cancel the answer of a run, or the newest one of a chat; nothing is said about it."""
        stream_id = stream_in("run", request.path_params["chat_id"])
        if stream_id is None:
            if (found := await self._in_chat(request)) is not None:
                await found.runtime.producers.cancel(found.newest)
        else:
            principal = await self._gate.principal_in_turn(request)
            runtime = await self._runtime()
            with suppress(UnknownStream):
                await runtime.producers.cancel(await owned(runtime, principal, stream_id))
        return Response(status_code=204)

    async def _in_chat(self, request: Request) -> "_Found | None":
        """Return the newest answer of the chat in the path, None if there is none.

        Raises:
            Problem: 400, 401 or 429.
        """
        principal = await self._gate.principal_in_turn(request)
        chat_id = check_chat_id(request.path_params["chat_id"])
        if not self._gate.has_keys and len(chat_id) < _MIN_SECRET:
            rule = f"must have at least {_MIN_SECRET} characters on a server without keys"
            raise bad_request("id", f"The id of the chat {rule}: whoever knows it can read it.")
        if wait := await self._gate.take_token(principal):
            raise too_many_requests(self._gate.options, wait)
        await self._gate.give_token_back(principal)  # reading the answer takes it
        runtime = await self._runtime()
        chat = Chat(runtime.log, principal, PROTOCOL, chat_id)
        notes = await chat.notes()
        newest = await chat.newest(notes)
        return None if newest is None else _Found(runtime, notes, newest)


class _Found(NamedTuple):
    """The newest answer of a chat, and the notes of all of them."""

    runtime: Runtime
    notes: Sequence[Note]
    newest: StreamMeta

    @property
    def has_several(self) -> bool:
        """True if the chat has more than one answer."""
        return len({note.request_id for note in self.notes}) > 1

    async def earlier(self) -> list[Earlier] | None:
        """Return the earlier answers of the same message, None if one of them is not known."""
        log, principal = self.runtime.log, self.newest.principal
        facts = facts_in(self.newest.fingerprint)
        name = "" if facts is None else facts.continues
        if not name:
            return []
        first = stream_in("msg", name)
        if first is None:
            return None  # the message was not begun here
        try:
            known = {first: await owned(self.runtime, principal, first)}
        except UnknownStream:
            return None
        for note in reversed(self.notes):
            found = await log.find(principal, note.request_id) if note.message_id == name else None
            if found is not None:
                known[found.stream_id] = found
        known.pop(self.newest.stream_id, None)
        return await _load(log, known.values())


async def _load(log: StreamLog, streams: Iterable[StreamMeta]) -> list[Earlier] | None:
    earlier = []
    for meta in streams:
        facts = facts_in(meta.fingerprint)
        if facts is None or meta.body_gone:
            return None
        entries = valid_entries(await load_entries(log, meta.stream_id))
        earlier.append(Earlier(meta.stream_id, facts, [entry for _, entry in entries]))
    return earlier


def _headers(meta: StreamMeta) -> dict[str, str]:
    return {**_HEADERS, "x-workflow-run-id": f"run_{meta.stream_id.hex}"}


def _start_index(request: Request) -> int | None:
    """Return the number of the chunk to begin with, None if none is given.

    Raises:
        Problem: 400.
    """
    given = request.query_params.get("startIndex")
    if given is None:
        return None
    if not _INDEX.fullmatch(given):
        raise bad_request("startIndex", "startIndex must be a whole number.")
    return int(given)


def _may_be_read(request: Request, answer: StreamMeta) -> bool:
    """Return True if an answer is running, or the page wants one that has ended and is not gone."""
    wants_ended = request.query_params.get("ended") == "true"
    return answer.outcome is None or (wants_ended and not answer.body_gone)


def _nothing(start: int | None) -> Response:
    """Return the response if no answer is running.

    Each transport takes another one for that, and any error for a defect.

    Raises:
        Problem: 404, the client has a part of an answer.
    """
    if start is None:
        return Response(status_code=204)
    if start > 0:
        detail = "The answer has expired: the server keeps it only for some time after its end."
        raise Problem(404, "answer-expired", detail)
    return _all_read()


def _all_read() -> Response:
    headers = {**_HEADERS, "Cache-Control": "no-cache, no-transform"}
    return Response(FINISH_ALONE, headers=headers, media_type="text/event-stream")


def _several_answers() -> Problem:
    detail = (
        "This chat has several answers, and a number of a chunk does not say in which one: use the "
        "id of the run, which the header x-workflow-run-id has, in place of the id of the chat."
    )
    return Problem(409, "several-answers", detail)
