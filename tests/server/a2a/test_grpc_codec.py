"""Parameters and results of gRPC in both versions of the protocol."""

from contextlib import suppress
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.a2a._dialects import OPERATIONS
from coreason_client.a2a._grpc._messages import methods_of, to_message
from coreason_client.a2a.errors import InvalidParamsError, VersionNotSupportedError
from coreason_client.server.a2a._grpc_codec import check_version, encode_result, parse_params
from coreason_client.server.http._problems import Problem
from tests.a2a.grpc.values import objects_of

MANY = 1_000_000
METHODS = [(version, name) for version in ("1.0", "0.3") for name in methods_of(version)]


def parsed(name: str, request: Any, version: str = "1.0", most: int = MANY) -> dict[str, Any]:
    return parse_params(methods_of(version)[name], version, request.SerializeToString(), most)


@pytest.mark.parametrize(
    ("version", "named"),
    [("1.0", None), ("1.0", ""), ("1.0", "1.0"), ("1.0", " 1.0.1 "), ("0.3", None), ("0.3", "0.3")],
)
def test_a_request_names_the_version_of_its_service_or_none(
    version: str, named: str | None
) -> None:
    check_version(version, named)


@pytest.mark.parametrize(("version", "named"), [("1.0", "0.3"), ("0.3", "1.0"), ("1.0", "9.9")])
def test_other_versions_are_refused(version: str, named: str) -> None:
    with pytest.raises(VersionNotSupportedError):
        check_version(version, named)


def test_parameters_of_both_versions_have_the_shape_of_1_0() -> None:
    sent = new.SendMessageRequest(
        tenant="acme",
        message=new.Message(message_id="m", role=new.ROLE_USER, parts=[new.Part(text="")]),
        configuration=new.SendMessageConfiguration(history_length=0, return_immediately=True),
    )
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": ""}]}
    configuration = {"historyLength": 0, "returnImmediately": True}
    expected = {"tenant": "acme", "message": message, "configuration": configuration}
    assert parsed("send_message", sent) == expected
    older = old.SendMessageRequest(
        request=old.Message(message_id="m", role=old.ROLE_USER, content=[old.Part(text="")])
    )
    expected = {"message": message, "configuration": {"returnImmediately": False}}
    assert parsed("send_message", older, "0.3") == expected
    older.configuration.history_length = 0  # protobuf does not send false
    expected["configuration"] = {"returnImmediately": True}
    assert parsed("send_message", older, "0.3") == expected
    older.configuration.blocking = True
    expected["configuration"] = {"returnImmediately": False}
    assert parsed("send_message", older, "0.3") == expected
    assert parsed("get_task", old.GetTaskRequest(name="tasks/t"), "0.3") == {"id": "t"}


@pytest.mark.parametrize(
    ("version", "name", "data"),
    [
        ("1.0", "get_task", b"\xff"),
        ("0.3", "get_task", old.GetTaskRequest(name="t").SerializeToString()),
        (
            "1.0",
            "send_message",
            to_message("lf.a2a.v1.SendMessageRequest", {"metadata": {"a": 1}}).SerializeToString()[
                :-8
            ]
            + b"\x00\x00\x00\x00\x00\x00\xf0\x7f",  # infinity
        ),
    ],
)
def test_wrong_requests(version: str, name: str, data: bytes) -> None:
    with pytest.raises(InvalidParamsError, match=r"The request is wrong: .*\."):
        parse_params(methods_of(version)[name], version, data, MANY)


@pytest.mark.parametrize(
    "request_",
    [
        new.SendMessageRequest(message=new.Message(parts=[new.Part()] * 100)),
        new.SendMessageRequest(message=new.Message(extensions=[""] * 100)),
        to_message("lf.a2a.v1.SendMessageRequest", {"metadata": {"a": [None] * 100}}),
        to_message(
            "lf.a2a.v1.SendMessageRequest", {"metadata": dict.fromkeys(map(str, range(100)))}
        ),
    ],
)
def test_too_many_values(request_: Any) -> None:
    with pytest.raises(Problem) as caught:
        parsed("send_message", request_, most=100)
    assert (caught.value.status, caught.value.slug) == (413, "body-too-complex")
    parsed("send_message", request_, most=400)


@pytest.mark.parametrize(("version", "name"), METHODS)
@given(data=st.data())
def test_any_request_gives_parameters_or_an_error(
    version: str, name: str, data: st.DataObject
) -> None:
    method = methods_of(version)[name]
    value = data.draw(objects_of(method.request))
    content = to_message(method.request, value).SerializeToString()
    with suppress(InvalidParamsError):
        assert isinstance(parse_params(method, version, content, MANY), dict)


@given(st.binary(max_size=200))
def test_any_bytes_give_parameters_or_an_error(data: bytes) -> None:
    for version, name in METHODS:
        with suppress(InvalidParamsError):
            parse_params(methods_of(version)[name], version, data, MANY)


def test_results_of_both_versions() -> None:
    event = {
        "statusUpdate": {
            "taskId": "t",
            "contextId": "c",
            "status": {"state": "TASK_STATE_CANCELED"},
            "generation": 4,
        }
    }
    sent = encode_result(methods_of("1.0")["resubscribe"], "1.0", "event", event)
    assert new.StreamResponse.FromString(sent).status_update.task_id == "t"
    sent = encode_result(methods_of("0.3")["resubscribe"], "0.3", "event", event)
    update = old.StreamResponse.FromString(sent).status_update
    assert update.status.state == old.TASK_STATE_CANCELLED
    assert update.final
    for version in ("1.0", "0.3"):
        method = methods_of(version)["delete_push_config"]
        assert encode_result(method, version, OPERATIONS[method.operation].result, None) == b""
