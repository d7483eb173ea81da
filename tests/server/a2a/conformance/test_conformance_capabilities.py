"""A capability that the card does not declare is refused; one that it requires is demanded."""

from collections.abc import Callable, Iterator

import httpx2
import pytest

from coreason_client.server import StreamLog
from coreason_client.server.a2a import A2A

from .driver import Refused
from .drivers import Connect
from .messages import completed, message
from .sites import Site, card, site

REQUIRED = "urn:example:required"
OPTIONAL = "urn:example:optional"


@pytest.fixture(scope="module")
def demanding(make_log: Callable[[], StreamLog]) -> Iterator[Site]:
    """An agent that requires an extension; its card wrongly says that it does not stream."""
    extensions = [{"uri": REQUIRED, "required": True}, {"uri": OPTIONAL}]
    capabilities = {"streaming": False, "extensions": extensions}
    settings = A2A(card=card(capabilities=capabilities))
    with site(make_log(), settings) as server:
        yield server


@pytest.mark.conforms("CORE-CAP-001")
@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "https://example.com/hook"}),
        ("GetTaskPushNotificationConfig", {"taskId": "t", "id": "c"}),
        ("ListTaskPushNotificationConfigs", {"taskId": "t"}),
        ("DeleteTaskPushNotificationConfig", {"taskId": "t", "id": "c"}),
    ],
)
def test_push_notifications_that_are_not_declared(
    http: httpx2.Client,
    plain_server: Site,
    connect: Connect,
    operation: str,
    params: dict[str, str],
) -> None:
    url = f"{plain_server.url}/.well-known/agent-card.json"
    assert http.get(url).json()["capabilities"]["pushNotifications"] is False
    with pytest.raises(Refused) as refused:
        connect(plain_server, "ann-key").call(operation, params)
    assert refused.value.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"


@pytest.fixture(scope="module")
def not_streaming(make_log: Callable[[], StreamLog]) -> Iterator[Site]:
    """An agent without streams; its card wrongly says that it has them."""
    settings = A2A(card=card(capabilities={"streaming": True}), streaming=False)
    with site(make_log(), settings) as server:
        yield server


@pytest.mark.conforms("CORE-CAP-002")
def test_streams_that_are_not_declared(
    http: httpx2.Client, not_streaming: Site, connect: Connect
) -> None:
    served = http.get(f"{not_streaming.url}/.well-known/agent-card.json").json()
    assert served["capabilities"]["streaming"] is False
    ann = connect(not_streaming, "ann-key")
    task = completed(ann)
    for operation, params in (
        ("SendStreamingMessage", message()),
        ("SubscribeToTask", {"id": task["id"]}),
    ):
        with pytest.raises(Refused) as refused, ann.stream(operation, params) as events:
            next(events)
        assert refused.value.reason == "UNSUPPORTED_OPERATION"
    assert [one["id"] for one in ann.call("ListTasks", {})["tasks"]].count(task["id"]) == 1


@pytest.mark.conforms("CORE-CAP-002")
def test_streams_are_declared_if_they_are_there(
    http: httpx2.Client, demanding: Site, connect: Connect
) -> None:
    served = http.get(f"{demanding.url}/.well-known/agent-card.json").json()
    assert served["capabilities"]["streaming"] is True
    ann = connect(demanding, "ann-key")
    with ann.stream("SendStreamingMessage", message(), A2A_Extensions=REQUIRED) as events:
        assert next(events).kind == "task"


@pytest.mark.conforms("CORE-CAP-004")
@pytest.mark.parametrize("named", ["", OPTIONAL, "urn:example:other"])
def test_a_client_must_name_a_required_extension(
    demanding: Site, connect: Connect, named: str
) -> None:
    with pytest.raises(Refused) as refused:
        connect(demanding, "ann-key").call("SendMessage", message(), A2A_Extensions=named)
    assert refused.value.reason == "EXTENSION_SUPPORT_REQUIRED"
    assert REQUIRED in refused.value.error["message"]


@pytest.mark.conforms("CORE-CAP-004", "JSONRPC-SVC-002", "HTTP_JSON-SVC-002", "GRPC-META-001")
def test_the_response_names_the_extensions_in_use(demanding: Site, connect: Connect) -> None:
    ann = connect(demanding, "ann-key")
    named = f"urn:example:other, {REQUIRED},{OPTIONAL}"
    answer = ann.exchange("SendMessage", message(), A2A_Extensions=named)
    assert answer.headers["a2a-extensions"].split(", ") == [REQUIRED, OPTIONAL]
    assert answer.result["task"]


@pytest.mark.conforms("JSONRPC-SVC-002", "HTTP_JSON-SVC-002")
def test_unknown_extensions_are_ignored(plain_server: Site, connect: Connect) -> None:
    ann = connect(plain_server, "ann-key")
    answer = ann.exchange("SendMessage", message(), A2A_Extensions="https://example.com/ext/v1")
    assert answer.result["task"]
    assert "a2a-extensions" not in answer.headers
    completed(ann)
