"""The file of a recording: JSON lines. Pure.

Each chunk has its own line, so that a difference between two recordings is a difference between
lines, and every program that reads JSON can read it. The first line has the version. Then follow,
for each exchange, a line with the request, one with the head of the response, one for each chunk
and one with the end. See docs/testing.md.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias, get_args

BASE = "http://recording.invalid"
"""Stands for the origin of the service in a file; the client gets that of the replay."""

End: TypeAlias = Literal["complete", "disconnect", "client left"]
"""The end of a response: complete, cut off by the service, or left by the client."""

Headers: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RecordedChunk:
    """A chunk of a body; `at` is in seconds after the request, None if times are not recorded."""

    data: bytes
    at: float | None = None


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """A request and its response; `status` is None if the service closed the connection instead.

    `target` is the path with its query. `chunked` is False if the response has a length.
    """

    method: str
    target: str
    headers: Headers
    body: bytes
    status: int | None = None
    response_headers: Headers = ()
    chunked: bool = False
    at: float | None = None
    chunks: tuple[RecordedChunk, ...] = ()
    end: End = "complete"


@dataclass(frozen=True, slots=True)
class Recording:
    """All exchanges, in the order in which they began; `base` is the path of the service's URL."""

    exchanges: tuple[RecordedExchange, ...]
    base: str = ""


_FORMAT = "coreason-recording"
_VERSION = 1
# Text that is valid in JSON, but that editors take for the end of a line.
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")


class RecordingError(ValueError):
    """A file that is not a recording, or one of another version."""


def dump(recording: Recording) -> str:
    """Return the text of the file."""
    head = {"format": _FORMAT, "version": _VERSION, "base": recording.base}
    lines = [head]
    for number, exchange in enumerate(recording.exchanges, 1):
        lines += _lines(number, exchange)
    return "".join(f"{_dumped(line)}\n" for line in lines)


def load(text: str) -> Recording:
    """Read the text of a file.

    Raises:
        RecordingError: it is not a recording, or one of another version; the message has the line.
    """
    lines = [_Line(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines or lines[0].get("format") != _FORMAT:
        raise RecordingError(f"the first line must have the format {_FORMAT!r}")
    if lines[0].get("version") != _VERSION:
        found = lines[0].get("version")
        raise RecordingError(f"the version must be {_VERSION}, got {found!r}: record it again")
    rest = iter(lines[1:])
    exchanges = tuple(_exchange(line, rest) for line in rest)
    return Recording(exchanges, lines[0].text("base"))


def _dumped(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return _LINE_ENDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


# Writing.


def _lines(number: int, exchange: RecordedExchange) -> Iterator[dict[str, Any]]:
    request = {"request": number, "method": exchange.method, "path": exchange.target}
    yield {**request, "headers": _joined(exchange.headers), **_body(exchange.body)}
    if exchange.status is not None:
        headers = _joined(exchange.response_headers)
        yield {
            "response": number,
            "status": exchange.status,
            "headers": headers,
            "chunked": exchange.chunked,
            **_at(exchange.at),
        }
        for chunk in exchange.chunks:
            yield {**chunk_fields(chunk.data), **_at(chunk.at)}
    yield {"end": exchange.end}


def _joined(headers: Headers) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _body(body: bytes) -> dict[str, Any]:
    """Return the body of a request, as JSON if it is; only its value matters, not its bytes."""
    if not body:
        return {}
    try:
        value = json.loads(body)
        json.dumps(value, ensure_ascii=False).encode()  # not all text of JSON is valid Unicode
    except (ValueError, RecursionError):
        return fields_of(body, "text")
    return {"json": value}


def _at(at: float | None) -> dict[str, float]:
    return {} if at is None else {"at": round(at, 3)}


# Reading.


class _Line:
    """A line of a file, whose fields are checked."""

    def __init__(self, number: int, line: str) -> None:
        self.number = number
        try:
            self.fields = json.loads(line)
        except ValueError as error:
            raise self.error(f"must be JSON: {error}") from None
        if not isinstance(self.fields, dict):
            raise self.error("must be a JSON object")

    def error(self, rule: str) -> RecordingError:
        return RecordingError(f"line {self.number} {rule}")

    def get(self, name: str) -> Any:
        return self.fields.get(name)

    def text(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str):
            raise self.error(f"must have {name!r} as text")
        return value

    def headers(self) -> Headers:
        found = self.get("headers")
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            raise self.error("must have 'headers' with texts")
        return tuple(found.items())

    def at(self) -> float | None:
        at = self.get("at")
        if at is not None and (not isinstance(at, int | float) or at < 0):
            raise self.error("must have 'at' in seconds")
        return at

    def chunk(self) -> bytes:
        try:
            return chunk_of(self.fields)
        except ValueError as error:
            raise self.error(f"has a chunk that cannot be read: {error}") from None

    def body(self) -> bytes:
        try:
            if "json" in self.fields:
                return json.dumps(self.fields["json"], ensure_ascii=False).encode()
            return bytes_of(self.fields, "text")
        except ValueError as error:
            raise self.error(f"has a body that cannot be read: {error}") from None


def _exchange(line: _Line, rest: Iterator[_Line]) -> RecordedExchange:
    if line.get("request") is None:
        raise line.error("must be the line of a request")
    lines = [*_until_end(line, rest)]
    response = lines[0] if "response" in lines[0].fields else None
    status = None if response is None else response.get("status")
    if status is not None and not (isinstance(status, int) and 100 <= status <= 599):
        raise lines[0].error("must have a 'status' from 100 to 599")
    return RecordedExchange(
        method=line.text("method"),
        target=line.text("path"),
        headers=line.headers(),
        body=line.body(),
        status=status,
        response_headers=() if response is None else response.headers(),
        chunked=response is not None and response.get("chunked") is True,
        at=None if response is None else response.at(),
        chunks=_chunks(lines[1:-1]),
        end=_end(lines[-1]),
    )


def _until_end(request: _Line, rest: Iterator[_Line]) -> Iterator[_Line]:
    for line in rest:
        yield line
        if "end" in line.fields:
            return
    raise request.error("begins an exchange without an 'end'")


def _chunks(lines: Sequence[_Line]) -> tuple[RecordedChunk, ...]:
    for line in lines:
        if not line.fields.keys() & CHUNK_FIELDS:
            raise line.error("must be a chunk or the end of an exchange")
    return tuple(RecordedChunk(line.chunk(), line.at()) for line in lines)


def _end(line: _Line) -> End:
    end: End = line.get("end")
    if end not in get_args(End):
        raise line.error(f"must have an 'end' that is one of {', '.join(get_args(End))}")
    return end


# Chunks. JSON and server-sent events with JSON are written as JSON, because JSON within a text is
# hard to read. That is done only if the same bytes come back; everything else is text or base64.

CHUNK_FIELDS = frozenset({"chunk", "events", "json", "base64"})
_FIELDS = ("event", "id", "retry", "data", "text")


def chunk_fields(data: bytes) -> dict[str, Any]:
    """Return the fields of a line for the bytes of a chunk."""
    for name, read in (("events", _events), ("json", _json)):
        try:
            fields = {name: read(data.decode())}
            if chunk_of(fields) == data:
                return fields
        except ValueError:
            pass
    return fields_of(data, "chunk")


def chunk_of(fields: Mapping[str, Any]) -> bytes:
    """Return the bytes of a chunk for the fields of its line.

    Raises:
        ValueError: they are not the fields of a chunk.
    """
    if "events" in fields:
        events = fields["events"]
        if not isinstance(events, list):
            raise ValueError("'events' must be a list")
        return "".join(map(_event_text, events)).encode()
    if "json" in fields:
        return _compact(fields["json"]).encode()
    return bytes_of(fields, "chunk")


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _events(text: str) -> list[dict[str, Any]]:
    *events, rest = text.split("\n\n")
    if rest or not events:
        raise ValueError("not complete events")
    return [_event(event) for event in events]


def _event(text: str) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for line in text.split("\n"):
        name, colon, value = line.partition(": ")
        if not colon or name not in _FIELDS or name == "text":
            raise ValueError("not a usual event")
        if name == "data":
            try:
                event["data"] = _json(value)
            except ValueError:
                event["text"] = value
        else:
            event[name] = value
    return event


def _event_text(event: Any) -> str:
    if not isinstance(event, dict) or not event.keys() <= set(_FIELDS):
        raise ValueError(f"an event must have only the fields {', '.join(_FIELDS)}")
    lines = [f"{_line_name(name)}: {_line_value(name, value)}" for name, value in event.items()]
    return "\n".join([*lines, "", ""])


def _line_name(name: str) -> str:
    return "data" if name == "text" else name


def _line_value(name: str, value: Any) -> str:
    if name == "data":
        return _compact(value)
    if not isinstance(value, str):
        raise ValueError(f"{name!r} of an event must be text")
    return value


# Bytes, as readable JSON fields, and back without a difference.

_EDGE = 3  # the most bytes that a chunk can have of a character that is split


def fields_of(data: bytes, name: str) -> dict[str, str]:
    """Return the fields for bytes: text in the field `name`, or else `base64`.

    If only the characters at the ends are split, their bytes are in `before` and `after`, as hex.
    """
    for first in range(min(_EDGE, len(data)) + 1):
        for last in range(min(_EDGE, len(data) - first) + 1):
            before, after = data[:first], data[len(data) - last :]
            if not (_continues(before) and _begins(after)):
                continue
            try:
                text = data[first : len(data) - last].decode()
            except UnicodeDecodeError:
                continue
            fields = {"before": before.hex(), name: text, "after": after.hex()}
            return {key: value for key, value in fields.items() if value or key == name}
    return {"base64": b64encode(data).decode()}


def _continues(edge: bytes) -> bool:
    return all(0x80 <= byte < 0xC0 for byte in edge)


def _begins(edge: bytes) -> bool:
    return not edge or (0xC2 <= edge[0] <= 0xF4 and _continues(edge[1:]))


def bytes_of(fields: Mapping[str, Any], name: str) -> bytes:
    """Return the bytes for fields.

    Raises:
        ValueError: a field is not what `fields_of` makes.
    """
    if "base64" in fields:
        return b64decode(_text(fields, "base64"), validate=True)
    ends = [bytes.fromhex(_text(fields, key)) for key in ("before", "after")]
    return ends[0] + _text(fields, name).encode() + ends[1]


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key!r} must be text")
    return value
