"""The peers, used as their own documentation says: an event source over a response."""

import codecs
from collections.abc import Iterator, Sequence

import httpx
import httpx2
import httpx_sse
from httpx_sse._decoders import SSEDecoder, SSELineDecoder

__all__ = ["httpx2_events", "httpx_sse_bare_events", "httpx_sse_events"]

_HEADERS = {"content-type": "text/event-stream"}
_URL = "http://localhost/"


class _Body(httpx.SyncByteStream):
    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)


class _Body2(httpx2.SyncByteStream):
    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)


def httpx_sse_events(chunks: Sequence[bytes]) -> Iterator[httpx_sse.ServerSentEvent]:
    """Read with httpx-sse from a response of httpx."""
    request = httpx.Request("GET", _URL)
    response = httpx.Response(200, headers=_HEADERS, stream=_Body(chunks), request=request)
    return httpx_sse.EventSource(response).iter_sse()


def httpx2_events(chunks: Sequence[bytes]) -> Iterator[httpx2.ServerSentEvent]:
    """Read with the event source of httpx2 from a response of httpx2."""
    request = httpx2.Request("GET", _URL)
    response = httpx2.Response(200, headers=_HEADERS, stream=_Body2(chunks), request=request)
    return iter(httpx2.EventSource(response))


def httpx_sse_bare_events(chunks: Sequence[bytes]) -> Iterator[httpx_sse.ServerSentEvent]:
    """Read with the decoders of httpx-sse alone, without what its response costs."""
    text = codecs.getincrementaldecoder("utf-8")("replace")
    lines = SSELineDecoder()
    decoder = SSEDecoder()
    for chunk in chunks:
        for line in lines.decode(text.decode(chunk)):
            event = decoder.decode(line)
            if event is not None:
                yield event
