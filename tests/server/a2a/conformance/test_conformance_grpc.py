"""The form of requests, responses, errors and streams over gRPC."""

from collections.abc import Iterator
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from a2a.types import a2a_pb2
from google.protobuf import descriptor_pb2, unknown_fields  # type: ignore[import-untyped]

from .driver import LIMIT, Connections
from .grpc_driver import GRPC, STREAMS, message_of
from .messages import UNKNOWN, message
from .refusals import GRPC_STATUSES, provoke
from .sites import Site

SERVICE = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
UNKNOWN_FIELD = b"\xba\x3e\x04more"
"""The field 999 with a text."""


@pytest.fixture
def ann(connections: Connections, plain_server: Site) -> GRPC:
    return GRPC(connections, plain_server.grpc, "ann-key")


@pytest.fixture(scope="module")
def channel(plain_server: Site) -> Iterator[Any]:
    """A channel for bytes."""
    with grpc.insecure_channel(plain_server.grpc) as channel:
        yield channel


def send(channel: Any, ann: GRPC, request: bytes) -> bytes:
    """Send a message as bytes."""
    method = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")
    answer: bytes = method(request, metadata=ann.metadata({}), timeout=LIMIT)
    return answer


@pytest.mark.conforms("GRPC-SVC-001")
def test_the_operations_are_the_methods_of_the_official_service() -> None:
    assert SERVICE.full_name == "lf.a2a.v1.A2AService"
    assert {method.name for method in SERVICE.methods} == UNKNOWN.keys()


@pytest.mark.conforms("GRPC-SVC-002")
def test_the_messages_are_those_of_the_official_proto_file(channel: Any, ann: GRPC) -> None:
    file = descriptor_pb2.FileDescriptorProto()
    a2a_pb2.DESCRIPTOR.CopyToProto(file)
    assert file.syntax == "proto3"
    request = message_of("SendMessage", message()).SerializeToString()
    answer = a2a_pb2.SendMessageResponse.FromString(send(channel, ann, request))
    assert answer.task.status.state == a2a_pb2.TASK_STATE_COMPLETED
    for one in (answer, answer.task, answer.task.status, *answer.task.artifacts):
        assert len(unknown_fields.UnknownFieldSet(one)) == 0


@pytest.mark.conforms("DM-SERIAL-005")
def test_unknown_fields_are_ignored(channel: Any, ann: GRPC) -> None:
    request = message_of("SendMessage", message()).SerializeToString() + UNKNOWN_FIELD
    assert len(unknown_fields.UnknownFieldSet(a2a_pb2.SendMessageRequest.FromString(request))) == 1
    answer = a2a_pb2.SendMessageResponse.FromString(send(channel, ann, request))
    assert answer.task.status.state == a2a_pb2.TASK_STATE_COMPLETED


@pytest.mark.conforms("GRPC-ERR-001", "GRPC-ERR-002")
@pytest.mark.parametrize("reason", GRPC_STATUSES)
def test_errors(ann: GRPC, reason: str) -> None:
    error = provoke(ann, reason).error
    assert error["code"] == GRPC_STATUSES[reason]
    [info] = error["details"]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (info["reason"], info["domain"]) == (reason, "a2a-protocol.org")


@pytest.mark.conforms("GRPC-ERR-003")
def test_streams_are_server_streaming_calls(ann: GRPC) -> None:
    streams = {
        method.name: (method.client_streaming, method.server_streaming)
        for method in SERVICE.methods
        if method.client_streaming or method.server_streaming
    }
    assert streams == dict.fromkeys(STREAMS, (False, True))
    with ann.stream("SendStreamingMessage", message()) as events:
        kinds = [event.kind for event in events]
    assert kinds == ["task", "artifactUpdate", "artifactUpdate", "statusUpdate"]
