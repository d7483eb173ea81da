"""The card: where it is, what it says, and that it is true."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
import pytest
from a2a.types import a2a_pb2
from google.protobuf import json_format  # type: ignore[import-untyped]

from coreason_client.server import StreamLog
from coreason_client.server.a2a import A2A

from .driver import JSON, Connections, Refused
from .drivers import DRIVERS, JSONRPC, Connect
from .messages import completed
from .sites import Site, card, site

PATH = "/.well-known/agent-card.json"
REQUIRED = (
    "name",
    "description",
    "supportedInterfaces",
    "version",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
)


def get(http: httpx2.Client, server: Site, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.get(f"{server.url}{PATH}", headers=named)


@pytest.fixture
def served(http: httpx2.Client, plain_server: Site) -> JSON:
    """The card, which needs no key."""
    response = get(http, plain_server)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    body: JSON = response.json()
    return body


@pytest.mark.conforms("CARD-DISC-001", "CARD-STRUCT-001")
def test_the_card_has_all_required_fields(served: JSON) -> None:
    assert [name for name in REQUIRED if not served.get(name)] == []
    official = json_format.ParseDict(served, a2a_pb2.AgentCard(), ignore_unknown_fields=True)
    assert official.name == "Conformance"
    assert official.capabilities.streaming
    for skill in served["skills"]:
        assert all(skill[name] for name in ("id", "name", "description", "tags"))


@pytest.mark.conforms("CARD-PROTO-001", "CARD-PROTO-002", "BIND-FIELD-001")
def test_every_interface_on_the_card_answers(connections: Connections, served: JSON) -> None:
    interfaces = served["supportedInterfaces"]
    declared = {(one["protocolBinding"], one["protocolVersion"]) for one in interfaces}
    assert declared == {(binding, version) for binding in DRIVERS for version in ("1.0", "0.3")}
    for interface in interfaces:
        binding, url = interface["protocolBinding"], interface["url"]
        assert url.startswith("127.0.0.1:" if binding == "GRPC" else "http://127.0.0.1:")
        if interface["protocolVersion"] == "1.0":
            completed(DRIVERS[binding](connections, url, "ann-key"))


@pytest.mark.conforms("CARD-PROTO-002")
def test_an_interface_answers_with_a_slash_at_its_end(
    plain_server: Site, connections: Connections
) -> None:
    completed(JSONRPC(connections, f"{plain_server.a2a}/", "ann-key"))


@pytest.mark.conforms("CARD-CACHE-001", "CARD-CACHE-002", "CARD-CACHE-003")
def test_the_card_may_be_kept_for_a_while(http: httpx2.Client, plain_server: Site) -> None:
    headers = get(http, plain_server).headers
    assert "max-age=" in headers["cache-control"]
    assert headers["etag"].startswith('"')
    assert parsedate_to_datetime(headers["last-modified"]) <= datetime.now(UTC)
    known = get(http, plain_server, If_None_Match=headers["etag"])
    assert (known.status_code, known.content) == (304, b"")
    modified = get(http, plain_server, If_Modified_Since=headers["last-modified"])
    assert modified.status_code == 304
    assert get(http, plain_server, If_None_Match='"other"').status_code == 200


@pytest.mark.conforms("CARD-EXT-001", "BIND-EQUIV-004", "AUTH-SERVER-002")
def test_the_extended_card_needs_a_key(plain_server: Site, connect: Connect, served: JSON) -> None:
    assert served["capabilities"]["extendedAgentCard"] is True
    assert connect(plain_server, "ann-key").call("GetExtendedAgentCard")["name"] == "Extended"
    for key in (None, "wrong-key"):
        with pytest.raises(Refused) as refused:
            connect(plain_server, key).call("GetExtendedAgentCard")
        assert refused.value.reason == "UNAUTHENTICATED"


@pytest.mark.conforms("CARD-EXT-001", "BIND-EQUIV-004")
def test_the_card_says_how_to_authenticate(served: JSON) -> None:
    [scheme] = served["securitySchemes"].values()
    assert scheme["httpAuthSecurityScheme"] == {"scheme": "bearer"}
    assert served["securityRequirements"]


@pytest.fixture(scope="module")
def lacking(make_log: Callable[[], StreamLog]) -> Iterator[Site]:
    """An agent whose card wrongly says that it has an extended card."""
    wishful = card(capabilities={"extendedAgentCard": True})
    with site(make_log(), A2A(card=wishful)) as server:
        yield server


@pytest.mark.conforms("CARD-EXT-002", "CORE-CAP-003")
def test_an_extended_card_that_is_missing_is_not_declared(
    http: httpx2.Client, lacking: Site, connect: Connect
) -> None:
    assert get(http, lacking).json()["capabilities"]["extendedAgentCard"] is False
    with pytest.raises(Refused) as refused:
        connect(lacking, "ann-key").call("GetExtendedAgentCard")
    assert refused.value.reason == "UNSUPPORTED_OPERATION"


@pytest.mark.conforms("CARD-EXT-002")
def test_the_error_for_a_missing_extended_card_in_0_3(http: httpx2.Client, lacking: Site) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}
    answer = http.post(lacking.a2a, json=body, headers={"Authorization": "Bearer ann-key"}).json()
    assert answer["error"]["code"] == -32007
