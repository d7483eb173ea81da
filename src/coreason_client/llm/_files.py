"""The requests of `upload` and `delete_file`, and the flow of an upload. No I/O.

* OpenAI and Anthropic get a form with the file. The part has the id of the stored file.
* Gemini is asked for an upload URL first; its part has the URI of the file. Audio and video are
  processed after the upload, and can be used once the file is active.
* An upload is retried as any other request: a file that was stored twice costs nothing.
"""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from .._drive import Action, Flow, Reply, Wait
from .._http._types import TransportFailure, origin
from ._answer import Malformed
from ._argument_errors import check_text, invalid
from ._attempts import BACKOFF, Attempts
from ._call import mime_type_of
from ._classify import FailedAttempt, malformed_failure
from ._json import clean_text, encode, mapping, text
from ._plan import SideDelete, SideGet, SidePlan
from ._reply import JSONReply, call_flow, json_reply, reply_reader
from ._route import ModelRoute
from .errors import LLMRequestError
from .providers.anthropic import FILES_BETA
from .types import Message

_PROVIDERS = ("openai", "anthropic", "gemini")
_UPLOAD = "X-Goog-Upload-"
_ANY_TYPE = "application/octet-stream"
_RESERVED = {'"': "%22", "\r": "%0D", "\n": "%0A"}  # in the name of a form's file


class ReadFile(Action):
    """Reads the file to upload: the bytes themselves, or those at a path.

    Attributes:
        name: the name of the file.
        data: its bytes, once they are read.
        error: the reason why they could not be read.

    Raises:
        LLMRequestError: an argument is wrong.
    """

    __slots__ = ("_path", "data", "error", "name")

    def __init__(self, file: Any, filename: Any) -> None:
        if not isinstance(file, str | PathLike | bytes | bytearray):
            raise invalid("file", "must be a path, or bytes", file)
        self._path = None if isinstance(file, bytes | bytearray) else Path(file)
        self.data = bytes(file) if isinstance(file, bytes | bytearray) else b""
        if filename is None and self._path is None:
            raise LLMRequestError(
                "filename must be given with bytes: it shows the type of the file"
            )
        self.name: str = self._path.name if filename is None and self._path else filename
        check_text("filename", self.name)
        self.error: OSError | None = None

    def perform(self) -> None:
        """Read the file."""
        try:
            if self._path is not None:
                self.data = self._path.read_bytes()
        except OSError as error:
            self.error = error

    async def perform_async(self) -> None:
        """Read the file in a thread."""
        from asyncio import to_thread

        await to_thread(self.perform)

    @property
    def media_type(self) -> str:
        """The MIME type, by the name of the file."""
        return mime_type_of(self.name) or _ANY_TYPE


def upload_plan(route: ModelRoute, file: ReadFile) -> SidePlan:
    """Return the first request of an upload.

    Raises:
        LLMRequestError: the provider stores no files, or there is nothing to send.
    """
    _check_provider(route)
    if file.error is not None:
        raise LLMRequestError(f"file {file.name!r} cannot be read: {file.error.strerror}")
    if not file.data:
        raise LLMRequestError(f"file {file.name!r} is empty: providers reject it")
    if route.profile.name != "gemini":
        purpose = "user_data" if route.profile.name == "openai" else ""
        return form_plan(route, purpose, (file.name, file.media_type, file.data))
    parts = urlsplit(route.base)
    url = f"{parts.scheme}://{parts.netloc}/upload{parts.path}/files"
    added = {
        f"{_UPLOAD}Protocol": "resumable",
        f"{_UPLOAD}Command": "start",
        f"{_UPLOAD}Header-Content-Length": str(len(file.data)),
        f"{_UPLOAD}Header-Content-Type": file.media_type,
    }
    described = {"displayName": file.name, "mimeType": file.media_type}
    return SidePlan(route, url, encode({"file": described}), added)


def form_plan(route: ModelRoute, purpose: str, file: tuple[str, str, bytes]) -> SidePlan:
    """Return the request that stores a file, given its name, MIME type and bytes, with a form."""
    name, media_type, data = file
    boundary = uuid4().hex
    part = f"--{boundary}\r\nContent-Disposition: form-data; name="
    shown = "".join(_RESERVED.get(character, character) for character in name)
    head = f'{part}"file"; filename="{shown}"\r\nContent-Type: {media_type}\r\n\r\n'
    field = f'{part}"purpose"\r\n\r\n{purpose}\r\n' if purpose else ""
    content = b"%b%b\r\n--%b--\r\n" % ((field + head).encode(), data, boundary.encode())
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}", **_beta(route)}
    return SidePlan(route, f"{route.base}/files", content, headers)


def delete_plan(route: ModelRoute, part: Any) -> SideDelete:
    """Return the request that deletes an uploaded file, given the part that `upload` returned.

    Raises:
        LLMRequestError: it is not such a part, or the provider stores no files.
    """
    _check_provider(route)
    id_ = text(mapping(mapping(part).get("file")).get("file_id")).rpartition("/")[2]
    if not id_:
        raise invalid("part", "must be what `upload` returned", part)
    return SideDelete(route, f"{route.base}/files/{quote(id_, safe='')}", added=_beta(route))


def _beta(route: ModelRoute) -> Mapping[str, str]:
    return FILES_BETA if route.profile.name == "anthropic" else {}


def upload_flow(attempts: Attempts[SidePlan], file: ReadFile) -> Flow[Message]:
    """Store a file and return the part of a message that has it.

    Raises:
        LLMError: the file is not stored, or cannot be used.
    """
    if attempts.plan.route.profile.name != "gemini":
        id_ = yield from call_flow(attempts, read_id)
        named = {"filename": file.name} if attempts.plan.route.profile.name == "anthropic" else {}
        return {"type": "file", "file": {"file_id": id_, **named}}
    url = yield from call_flow(attempts, _read_upload_url)
    added = {f"{_UPLOAD}Command": "upload, finalize", f"{_UPLOAD}Offset": "0"}
    added["Content-Type"] = file.media_type
    attempts.continue_with(SidePlan(attempts.plan.route, url, file.data, added))
    stored = mapping((yield from call_flow(attempts, read_json)).get("file"))
    polls = 0
    while stored.get("state") == "PROCESSING":
        polls += 1
        yield Wait(BACKOFF.delay(polls, attempts.policy.jitter))
        route = attempts.plan.route
        name = quote(text(stored.get("name")))
        attempts.continue_with(SideGet(route, f"{route.base}/{name}"))
        stored = yield from call_flow(attempts, read_json)
    return _gemini_part(attempts.plan.route, stored, file)


def _gemini_part(route: ModelRoute, stored: Mapping[str, Any], file: ReadFile) -> Message:
    uri, state = text(stored.get("uri")), stored.get("state")
    if not uri or state not in (None, "ACTIVE"):
        reason = text(mapping(stored.get("error")).get("message")) or f"its state is {state}"
        raise LLMRequestError(
            f"{route.profile.name} cannot use file {file.name!r}: {clean_text(reason)}",
            provider=route.profile.name,
        )
    return {"type": "file", "file": {"file_id": uri, "filename": file.name}}


def _check_provider(route: ModelRoute) -> None:
    if route.profile.name not in _PROVIDERS:
        raise LLMRequestError(
            f"{route.profile.name} stores no files for this client: {', '.join(_PROVIDERS)} do; "
            "or send the file with each message, as file_data",
            provider=route.profile.name,
            model=route.model,
        )


# Replies.


@reply_reader
def read_json(plan: SidePlan, reply: JSONReply) -> Mapping[str, Any]:
    """Return the JSON object in a reply."""
    return mapping(reply.value)


@reply_reader
def read_id(plan: SidePlan, reply: JSONReply) -> str:
    """Return the id in a reply."""
    if id_ := text(reply.value.get("id")):
        return id_
    raise Malformed("the file has no id")


def _read_upload_url(
    plan: SidePlan, result: Reply | TransportFailure | None, seconds: float
) -> str | FailedAttempt:
    """Return the URL to which a file is sent; it must have the origin of the provider."""
    if not isinstance(result, Reply) or result.head.status != 200:
        reply = json_reply(plan.route, result, seconds)
        if isinstance(reply, FailedAttempt):
            return reply
    assert isinstance(result, Reply)  # noqa: S101 - for the type checker
    url = result.head.headers.get(f"{_UPLOAD}URL", "")
    try:
        if origin(url) == origin(plan.url):
            return url
    except ValueError:
        pass
    why = Malformed("the upload URL is missing, or belongs to another host")
    return malformed_failure(plan.route, result.head, why, result.body)
