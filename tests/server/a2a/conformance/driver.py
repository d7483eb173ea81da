"""The common part of the drivers of all bindings.

A driver calls operations by their names in the specification. Results are the JSON objects of 1.0,
refusals are `Refused`. It knows the specification and nothing of our own client.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Self

import grpc  # type: ignore[import-untyped]
import httpx2
from a2a.types import a2a_pb2_grpc

LIMIT = 20.0
JSON = dict[str, Any]


class Refused(Exception):
    """An operation that the server refuses.

    `reason` is that of the `ErrorInfo`; an error that has none has the name of its kind:
    INVALID_PARAMS, METHOD_NOT_FOUND, UNAUTHENTICATED and so on, the same for all bindings.
    `status` is that of HTTP or gRPC, `challenge` says how to authenticate.
    """

    def __init__(self, reason: str, status: int, error: JSON, challenge: str = "") -> None:
        super().__init__(f"{reason}, status {status}: {error}")
        self.reason = reason
        self.status = status
        self.error = error
        self.challenge = challenge


@dataclass(frozen=True)
class Received:
    """An event of a stream, with the id that it had on the wire."""

    event: JSON
    id: str | None = None

    @property
    def kind(self) -> str:
        [kind] = self.event
        return kind

    @property
    def body(self) -> JSON:
        body: JSON = self.event[self.kind]
        return body


@dataclass(frozen=True)
class Answer:
    """The result of an operation, and the headers of the response (metadata in gRPC)."""

    result: Any
    headers: Mapping[str, str]


class Connections:
    """The connections of all tests: clients and channels take a moment to make.

    `credentials` are those of gRPC, None for channels without TLS.
    """

    def __init__(self, http: httpx2.Client, credentials: Any = None) -> None:
        self.http = http
        self._credentials = credentials
        self._channels = ExitStack()
        self._stubs: dict[str, Any] = {}

    def stub(self, address: str) -> Any:
        """Return the client that the proto file gives for an address."""
        if address not in self._stubs:
            channel = self._channels.enter_context(self._channel(address))
            self._stubs[address] = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        return self._stubs[address]

    def _channel(self, address: str) -> Any:
        if self._credentials is None:
            return grpc.insecure_channel(address)
        return grpc.secure_channel(address, self._credentials)

    def close(self) -> None:
        """Close the channels."""
        self._channels.close()


class Driver:
    """A client of one binding for one caller; `url` is that of the binding's interface."""

    name = ""

    def __init__(
        self,
        connections: Connections,
        url: str,
        key: str | None = None,
        version: str | None = "1.0",
    ) -> None:
        self.connections = connections
        self.url, self.key, self.version = url, key, version

    def with_key(self, key: str | None) -> Self:
        """Return a driver for another caller."""
        return type(self)(self.connections, self.url, key, self.version)

    def with_version(self, version: str | None) -> Self:
        """Return a driver that names another version of the protocol, None for none."""
        return type(self)(self.connections, self.url, self.key, version)

    def call(self, operation: str, params: JSON | None = None, **headers: str) -> Any:
        """Return the result of an operation."""
        return self.exchange(operation, params, **headers).result

    def exchange(self, operation: str, params: JSON | None = None, **headers: str) -> Answer:
        """Return the result of an operation with the headers of the response."""
        raise NotImplementedError

    def stream(
        self, operation: str, params: JSON, **headers: str
    ) -> AbstractContextManager[Iterator[Received]]:
        """Call an operation that streams, and give its events."""
        raise NotImplementedError

    def headers(self, more: Mapping[str, str]) -> dict[str, str]:
        headers = {} if self.version is None else {"A2A-Version": self.version}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        return headers | {name.replace("_", "-"): value for name, value in more.items()}


def reason_in(details: list[JSON]) -> str | None:
    """Return the reason of the `ErrorInfo` in the details of an error."""
    for detail in details:
        if detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo":
            assert detail["domain"] == "a2a-protocol.org"
            reason: str = detail["reason"]
            return reason
    return None


def violations_in(error: JSON) -> list[JSON]:
    """Return what an error says about wrong parameters."""
    details = error.get("data") or error["details"]
    return [one for detail in details for one in detail.get("fieldViolations", ())]
