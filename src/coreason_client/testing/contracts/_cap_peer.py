"""A plain HTTP client of a CAP server: it sends what a test passes, and keeps the response."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import uuid4

import httpx2

from coreason_manifest.definitions.presentation import StreamPacket, parse_packet

from ...sse import ServerSentEvent, SSEDecoder

__all__ = ["CAPAnswer", "CAPPeer", "question_body"]


def question_body(question: str, request_id: str | None = None) -> dict[str, Any]:
    """Return the body of a request with one question."""
    message = {"role": "user", "parts": [{"type": "text", "content": question}]}
    return {
        "request_id": request_id or str(uuid4()),
        "context": {"session_id": str(uuid4()), "user_id": "contract"},
        "payload": {"messages": [message]},
    }


@dataclass
class CAPAnswer:
    """A response: its status and headers, and the events that were read."""

    status: int
    headers: httpx2.Headers
    events: list[ServerSentEvent] = field(default_factory=list)
    body: bytes = b""

    @property
    def packets(self) -> list[StreamPacket]:
        """The packets of the events."""
        return [parse_packet(event.data_bytes) for event in self.events]

    @property
    def ids(self) -> list[str]:
        """The ids of the events."""
        return [event.id for event in self.events]


@cache
def _authorities() -> ssl.SSLContext:
    """Return what httpx2 would load for each client; it takes longer than a test."""
    return httpx2.create_ssl_context(trust_env=False)


class CAPPeer:
    """Sends requests to one server with one key."""

    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx2.Client(
            base_url=url.rstrip("/"),
            headers=headers,
            timeout=timeout,
            trust_env=False,
            verify=_authorities(),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def ask(self, body: object, last_event_id: str | None = None, **options: Any) -> CAPAnswer:
        """Send `POST /assist`, and read the whole response."""
        return self.send("POST", "/assist", last_event_id, json=body, **options)

    def send(
        self, method: str, path: str, last_event_id: str | None = None, **options: Any
    ) -> CAPAnswer:
        """Send a request, and read the whole response."""
        with self.open(method, path, last_event_id, **options) as (answer, chunks):
            for chunk in chunks:
                answer.body += chunk
        if _is_stream(answer):
            answer.events = list(SSEDecoder().feed(answer.body))
        return answer

    @contextmanager
    def open(
        self, method: str, path: str, last_event_id: str | None = None, **options: Any
    ) -> Iterator[tuple[CAPAnswer, Iterator[bytes]]]:
        """Send a request; yield the response without its body, and the chunks of the body."""
        headers = dict(options.pop("headers", {}))
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        with self._http.stream(method, path, headers=headers, **options) as response:
            yield CAPAnswer(response.status_code, response.headers), response.iter_bytes()

    def first_packets(self, body: object, count: int) -> CAPAnswer:
        """Read so many packets of an answer, and close the connection."""
        decoder = SSEDecoder()
        with self.open("POST", "/assist", json=body) as (answer, chunks):
            for chunk in chunks:
                answer.events += decoder.feed(chunk)
                if len(answer.events) >= count:
                    break
        del answer.events[count:]
        return answer


def _is_stream(answer: CAPAnswer) -> bool:
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip()
    return answer.status == 200 and media_type == "text/event-stream"
