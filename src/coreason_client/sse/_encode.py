"""The encoder: events to bytes; values that would break the framing are rejected."""

from ..errors import ArgumentError

__all__ = ["encode_comment", "encode_event"]

_LINE_ENDS = ("\r", "\n")


def encode_event(
    data: str | bytes | None = None,
    *,
    event: str | None = None,
    id: str | None = None,  # noqa: A002 - the name of the field on the wire
    retry_ms: int | None = None,
) -> bytes:
    """Encode one event; without data the block contains only the other fields.

    A decoder returns the same data, but with every line end as LF, because the wire format does not
    distinguish them.

    Args:
        data: the data, as text or as UTF-8.
        event: the type of the event.
        id: the id, with which a client resumes.
        retry_ms: the milliseconds that clients should wait before they reconnect.

    Raises:
        ArgumentError: a line end in `event` or `id`, a NUL in `id`, or a negative `retry_ms`.
    """
    fields = bytearray()
    if event is not None:
        fields += b"event: " + _one_line("event", event) + b"\n"
    if id is not None:
        if "\0" in id:
            raise ArgumentError("id", "must not contain NUL, because readers ignore such an id")
        fields += b"id: " + _one_line("id", id) + b"\n"
    if retry_ms is not None:
        if retry_ms < 0:
            raise ArgumentError("retry_ms", "must be 0 or more", retry_ms)
        fields += b"retry: %d\n" % retry_ms
    if data is not None:
        _add_data(fields, data.encode() if isinstance(data, str) else data)
    fields += b"\n"
    return bytes(fields)


def encode_comment(text: str = "") -> bytes:
    """Encode a comment, which keeps a connection alive and is not an event.

    Raises:
        ArgumentError: a line end in the text.
    """
    return b": " + _one_line("text", text) + b"\n\n" if text else b":\n\n"


def _one_line(field: str, value: str) -> bytes:
    if any(end in value for end in _LINE_ENDS):
        raise ArgumentError(field, "must be one line")
    return value.encode()


def _add_data(fields: bytearray, data: bytes) -> None:
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    fields += b"data: " + data + b"\n"
