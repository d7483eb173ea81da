"""Requests and responses of the gRPC binding, byte by byte."""

from typing import Any

import pytest
from a2a.types import a2a_pb2

from coreason_client._http._types import timeouts_from
from coreason_client.a2a import errors
from coreason_client.a2a._call import Settings
from coreason_client.a2a._dialects import OPERATIONS, V10
from coreason_client.a2a._grpc._channel import (
    GrpcCall,
    GrpcChannel,
    answer_in,
    error_event,
    message_event,
)
from coreason_client.a2a._grpc._status import GrpcStatus, status_from_error
from coreason_client.a2a._v03._rest import V03_GRPC
from coreason_client.a2a.types import Message, Task, TaskState, UnknownEvent
from coreason_client.sse import SSEDecoder

URL = "http://127.0.0.1:50051"
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


def channel(**options: Any) -> GrpcChannel:
    return GrpcChannel(URL, Settings(headers={"X-Key": "k"}), **options)


def call(name: str, params: dict[str, Any] | None = None) -> GrpcCall:
    return channel().call(OPERATIONS[name], params or {"id": "t"})


def event_data(chunk: bytes) -> bytes:
    [event] = SSEDecoder().events(chunk)
    return event.data_bytes


def test_a_request() -> None:
    settings = Settings(extensions=("https://e.example",), headers={"X-Key": "k"})
    made = GrpcChannel(URL, settings, "acme").call(
        OPERATIONS["send_message"], {"message": MESSAGE, "configuration": {"historyLength": 0}}
    )
    request = made.request
    assert request.url == f"{URL}/lf.a2a.v1.A2AService/SendMessage"
    assert request.headers["A2A-Version"] == "1.0"
    assert request.headers["A2A-Extensions"] == "https://e.example"
    assert request.headers["X-Key"] == "k"
    assert request.timeouts == timeouts_from(180.0)
    assert request.max_message_bytes == 10_000_000
    sent = a2a_pb2.SendMessageRequest.FromString(request.content)
    assert (sent.tenant, sent.message.message_id) == ("acme", "m")
    assert sent.configuration.HasField("history_length")


def test_the_settings_of_a_call_replace_those_of_the_channel() -> None:
    settings = Settings(stream=timeouts_from(5.0), max_event_bytes=20, max_body_bytes=30)
    request = channel().call(OPERATIONS["resubscribe"], {"id": "t"}, None, settings).request
    assert request.timeouts == timeouts_from(5.0)
    assert request.max_message_bytes == 30


def test_the_tenant_of_the_caller_wins() -> None:
    made = channel(tenant="acme").call(OPERATIONS["get_task"], {"id": "t", "tenant": "own"})
    assert a2a_pb2.GetTaskRequest.FromString(made.request.content).tenant == "own"


def test_an_operation_that_the_dialect_does_not_have() -> None:
    with pytest.raises(errors.UnsupportedOperationError, match="of the protocol has no list_tasks"):
        channel(dialect=V03_GRPC).call(OPERATIONS["list_tasks"], {})


def test_parameters_that_cannot_be_sent() -> None:
    with pytest.raises(errors.InvalidParamsError, match=r"list_tasks.*timestamp"):
        channel().call(OPERATIONS["list_tasks"], {"statusTimestampAfter": "yesterday"})


# Responses.


def test_results() -> None:
    task = a2a_pb2.Task(id="t", status=a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_WORKING))
    found = call("get_task").parse_response(task.SerializeToString())
    assert isinstance(found, Task)
    assert (found.id, found.status.state) == ("t", TaskState.WORKING)
    response = a2a_pb2.SendMessageResponse(message=a2a_pb2.Message(message_id="m"))
    message = call("send_message", {"message": MESSAGE}).parse_response(
        response.SerializeToString()
    )
    assert isinstance(message, Message)
    assert call("delete_push_config").parse_response(b"") is None
    assert call("list_tasks").parse_response(b"").tasks == []
    assert call("list_push_configs").parse_response(b"").configs == []


def test_a_state_that_this_client_does_not_know() -> None:
    found = call("get_task").parse_response(b"\x0a\x01t\x1a\x02\x08\x63")
    assert found.id == "t"
    assert not found.status.is_terminal


@pytest.mark.parametrize("name", ["get_task", "get_extended_card", "get_push_config"])
def test_an_empty_result(name: str) -> None:
    with pytest.raises(errors.A2AEmptyResultError, match=name):
        call(name).parse_response(b"")


def test_a_body_that_is_not_a_message() -> None:
    with pytest.raises(errors.A2AJSONError, match="the response to get_task is not valid") as found:
        call("get_task").parse_response(b"\x0a\xff")
    assert found.value.body == b"\x0a\xff"


def test_an_event() -> None:
    response = a2a_pb2.StreamResponse(message=a2a_pb2.Message(message_id="m"))
    data = event_data(message_event(response.SerializeToString()))
    event = call("resubscribe").parse_event(data)
    assert isinstance(event, Message)


def test_an_event_of_a_kind_that_this_client_does_not_know() -> None:
    # Field 9 of the one-of, which no version has.
    event = call("resubscribe").parse_event(event_data(message_event(b"\x4a\x00")))
    assert isinstance(event, UnknownEvent)


def test_an_empty_event() -> None:
    with pytest.raises(errors.A2AEmptyResultError):
        call("resubscribe").parse_event(b"")


@pytest.mark.parametrize("data", [b"?", b"{", b"Cv8="])
def test_an_event_that_cannot_be_parsed(data: bytes) -> None:
    with pytest.raises(errors.A2ASSEParseError, match="an event of the stream"):
        call("resubscribe").parse_event(data)


def test_the_status_that_ends_a_stream() -> None:
    status = status_from_error(errors.TaskNotFoundError("gone"))
    with pytest.raises(errors.TaskNotFoundError, match="gone"):
        call("resubscribe").parse_event(event_data(error_event(status)))
    with pytest.raises(errors.A2AHTTPError, match="gRPC status UNAUTHENTICATED: who") as caught:
        call("resubscribe").parse_event(
            event_data(error_event(GrpcStatus("UNAUTHENTICATED", "who")))
        )
    assert caught.value.status == 401


# Errors before the first message.


def test_an_error_of_the_protocol() -> None:
    head, body = answer_in(status_from_error(errors.UnsupportedOperationError("no")))
    error = call("get_task").response_error(head, body)
    assert type(error) is errors.UnsupportedOperationError
    assert (error.status, error.reason, error.body) == (400, "UNSUPPORTED_OPERATION", body)


def test_another_status_is_an_http_error() -> None:
    head, body = answer_in(GrpcStatus("PERMISSION_DENIED", "not you"))
    error = call("get_task").response_error(head, body)
    assert type(error) is errors.A2AHTTPError
    assert error.status == 403
    assert str(error) == (
        f"{URL}/lf.a2a.v1.A2AService/GetTask was answered with the gRPC status"
        " PERMISSION_DENIED: not you"
    )


@pytest.mark.parametrize("body", [b"", b"[]", b'{"error": 3}'])
def test_a_body_without_an_error(body: bytes) -> None:
    head, _ = answer_in(GrpcStatus("ABORTED", ""))
    error = call("get_task").response_error(head, body)
    assert (type(error), error.status) == (errors.A2AHTTPError, 409)


def test_there_are_no_verbs() -> None:
    head, body = answer_in(GrpcStatus("NOT_FOUND", ""))
    made = call("resubscribe")
    assert not made.try_other_verb(head, made.response_error(head, body))
    assert made.channel.dialect is V10
