"""One stream with a fault, and the record of what its client did."""

import itertools
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .._secret_names import HiddenHeaders
from ._logs import LogPlan
from ._table import Fault
from ._wire import Packet

Counted: TypeAlias = Literal["open", "hanging", "answering", "bytes_sent"]


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it arrived.

    Attributes:
        method: such as `POST`.
        target: the path and the query as they were sent.
        path: the path below the base URL.
        headers: the headers by lower-case name; the representation has no credentials.
        raw_headers: the headers in order, with the names as they were sent.
        body: the complete body.
        origin: the origin of the server that received it.
        connection: the number of the connection, counted from 1 over all runs.
        at: the time of its arrival, in seconds of `time.monotonic`.
    """

    method: str
    target: str
    path: str
    headers: HiddenHeaders
    raw_headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes
    origin: str
    connection: int
    at: float

    @property
    def last_event_id(self) -> str | None:
        """The position after which the client wants to continue."""
        return self.headers.get("last-event-id")

    @property
    def keep_alive(self) -> bool:
        """True if the client can use the connection again."""
        return "close" not in self.headers.get("connection", "").lower()


class RunRecord:
    """The record of a run; the thread of the server writes it, tests read it.

    Attributes:
        requests: the requests so far.
        errors: the errors of the server.
        counts: the connections that are open, those on which the server is silent ("hanging"), the
            responses that have begun and not ended ("answering"), and the bytes sent.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.requests: list[RecordedRequest] = []
        self.errors: list[Exception] = []
        self.counts: Counter[Counted] = Counter()

    def add_request(self, request: RecordedRequest) -> int:
        """Record a request and return its number, counted from 1."""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            return len(self.requests)

    def add_error(self, error: Exception) -> None:
        """Record an error of the server."""
        with self._changed:
            self.errors.append(error)

    def add(self, counted: Counted, change: int) -> None:
        """Count something: bytes that were sent, or one more or one less (-1) of the others."""
        with self._changed:
            self.counts[counted] += change
            self._changed.notify_all()

    def read(self, value: Callable[["RunRecord"], Any]) -> Any:
        """Return a value that no other thread changes meanwhile."""
        with self._changed:
            return value(self)

    def wait(self, condition: Callable[["RunRecord"], bool], timeout: float) -> bool:
        """Wait until the condition is true; return False if it was not within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), timeout)


class FaultRun:
    """One stream with a fault, as `FaultServer.run` returns it.

    Attributes:
        name: the name of the fault.
        options: the options of the fault.
        fault_after: the number of packets before the fault.
        stream_id: the id of the stream.
        packets: the packets of a complete stream.
        base_url: the URL for a client.
        other_base_url: the same on another port, which is another origin.
    """

    def __init__(
        self,
        fault: Fault,
        number: int,
        origins: tuple[str, str],
        plan: LogPlan,
        options: Mapping[str, Any],
    ) -> None:
        fault.check(options)
        self.name = fault.name
        self.id = f"{number}-{fault.name}"
        self.fault = fault
        self.options = dict(options)
        self.fault_after = plan.fault_after
        self.stream_id = plan.stream_id
        self.other_stream_id = str(uuid.uuid5(uuid.UUID(plan.stream_id), "other"))
        self.packets = tuple(fault.build(plan, options))
        self.base_url, self.other_base_url = (f"{origin}/{self.id}" for origin in origins)
        self.record = RunRecord()

    def __repr__(self) -> str:
        return f"<FaultRun {self.name} at {self.base_url}: {len(self.requests)} requests>"

    @property
    def url(self) -> str:
        """The URL of the stream itself, for a program that sends its own requests."""
        return f"{self.base_url}/assist"

    @property
    def text(self) -> str:
        """The text of a complete stream."""
        return "".join(str(item.p) for item in self.packets if item.op == "DELTA")

    @property
    def before_fault(self) -> tuple[Packet, ...]:
        """The packets before the fault of the first attempt."""
        return self.packets[: self.fault_after]

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests so far, including redirected ones."""
        return list(self.record.read(lambda record: list(record.requests)))

    @property
    def last_event_ids(self) -> list[str | None]:
        """The Last-Event-ID of each request so far."""
        return [request.last_event_id for request in self.requests]

    @property
    def delays(self) -> list[float]:
        """The seconds from the arrival of each request to that of the next."""
        times = [request.at for request in self.requests]
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    @property
    def errors(self) -> list[Exception]:
        """Errors of the server itself; a client that disconnects is not an error."""
        return list(self.record.read(lambda record: list(record.errors)))

    @property
    def connections_open(self) -> int:
        """The connections that the client has not closed; one that was reset counts as closed."""
        return int(self.record.read(lambda record: record.counts["open"]))

    @property
    def bytes_sent(self) -> int:
        """The bytes that were sent."""
        return int(self.record.read(lambda record: record.counts["bytes_sent"]))

    def wait_all_closed(self, timeout: float = 5.0) -> bool:
        """Wait until the client has closed all its connections; return False if it has not."""
        return self.record.wait(lambda record: record.counts["open"] == 0, timeout)

    def wait_all_answered(self, timeout: float = 5.0) -> bool:
        """Wait until no response is being sent or held back; return False if one still is.

        A client that keeps idle connections has then left every response that it does not read.
        """
        return self.record.wait(lambda record: record.counts["answering"] == 0, timeout)

    def wait_requests(self, count: int, timeout: float = 5.0) -> bool:
        """Wait until this many requests have arrived; return False if they have not."""
        return self.record.wait(lambda record: len(record.requests) >= count, timeout)

    def wait_bytes_sent(self, count: int, timeout: float = 5.0) -> bool:
        """Wait until this many bytes have been sent; return False if they have not."""
        return self.record.wait(lambda record: record.counts["bytes_sent"] >= count, timeout)

    def wait_hanging(self, count: int = 1, timeout: float = 5.0) -> bool:
        """Wait until the server is silent on this many connections; return False if it is not."""
        return self.record.wait(lambda record: record.counts["hanging"] >= count, timeout)
