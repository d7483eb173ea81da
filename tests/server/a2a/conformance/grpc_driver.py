"""A client for gRPC: the code that the official proto file gives, and nothing else."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import grpc  # type: ignore[import-untyped]
from a2a.types import a2a_pb2
from google.protobuf import json_format  # type: ignore[import-untyped]
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from .driver import JSON, LIMIT, Answer, Driver, Received, Refused, reason_in

DETAILS = error_details_pb2.DESCRIPTOR.pool
"""Knows the messages in the details of a status."""
STREAMS = ("SendStreamingMessage", "SubscribeToTask")
REQUESTS = {
    "SendMessage": "SendMessageRequest",
    "SendStreamingMessage": "SendMessageRequest",
    "CreateTaskPushNotificationConfig": "TaskPushNotificationConfig",
}
"""The requests whose name is not that of the operation."""
EMPTY: Mapping[str, JSON] = {
    "ListTasksResponse": {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0},
    "ListTaskPushNotificationConfigsResponse": {"configs": []},
}
"""Required fields that are not on the wire when they are empty."""


class GRPC(Driver):
    """gRPC: each operation is a method of the service."""

    name = "GRPC"

    def exchange(self, operation: str, params: JSON | None = None, **headers: str) -> Answer:
        if operation in STREAMS:
            with self.stream(operation, params or {}, **headers) as events:
                raise AssertionError(f"it is not refused: {next(events)}")
        method = getattr(self.connections.stub(self.url), operation)
        request, metadata = message_of(operation, params or {}), self.metadata(headers)
        try:
            result, call = method.with_call(request, metadata=metadata, timeout=LIMIT)
        except grpc.RpcError as error:
            raise refused(error) from None
        return Answer(json_of(result), dict(call.initial_metadata()))

    @contextmanager
    def stream(self, operation: str, params: JSON, **headers: str) -> Iterator[Iterator[Received]]:
        method = getattr(self.connections.stub(self.url), operation)
        request, metadata = message_of(operation, params), self.metadata(headers)
        call = method(request, metadata=metadata, timeout=LIMIT)
        try:
            events = _events(call)
            first = next(events)  # a call is refused instead of its first event
            yield chain([first], events)
        finally:
            call.cancel()

    def metadata(self, headers: Mapping[str, str]) -> list[tuple[str, str]]:
        return [(name.lower(), value) for name, value in self.headers(headers).items()]


def _events(call: Any) -> Iterator[Received]:
    try:
        for message in call:
            yield Received(json_of(message))
    except grpc.RpcError as error:
        raise refused(error) from None


def message_of(operation: str, params: JSON) -> Any:
    """Return the request of an operation."""
    name = REQUESTS.get(operation, f"{operation}Request")
    return json_format.ParseDict(params, getattr(a2a_pb2, name)())


def json_of(message: Any) -> JSON:
    """Return a message as the JSON object that the other bindings have for it."""
    return {**EMPTY.get(message.DESCRIPTOR.name, {}), **json_format.MessageToDict(message)}


def refused(error: Any) -> Refused:
    """Return the refusal for the status with which a call has ended."""
    metadata = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(metadata.get("grpc-status-details-bin", b""))
    details = [
        json_format.MessageToDict(detail, descriptor_pool=DETAILS) for detail in status.details
    ]
    code, message = error.code(), error.details()
    body = {"code": code.name, "message": message, "details": details}
    return Refused(reason_in(details) or code.name, code.value[0], body, challenge=message)
