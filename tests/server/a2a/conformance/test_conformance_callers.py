"""The permissions of callers: keys, and tasks that belong to somebody else."""

import ssl
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import httpx2
import pytest
import trustme

from coreason_client.server import StreamLog
from coreason_client.server.a2a import A2A
from tests.each import each

from .driver import LIMIT, Connections, Driver, Refused
from .drivers import DRIVERS, Connect
from .messages import INPUT_REQUIRED, UNKNOWN, completed, fresh, interrupted, message
from .sites import Site, card, site


@pytest.mark.conforms("AUTH-SERVER-002", "AUTH-SCOPE-001", "BIND-EQUIV-004")
@each(("operation", "key"), product(UNKNOWN, [None, "wrong-key"]))
def test_every_operation_needs_a_key(
    plain_server: Site, connect: Connect, operation: str, key: str | None
) -> None:
    nobody = connect(plain_server, key)
    with pytest.raises(Refused) as refused:
        nobody.call(operation, UNKNOWN[operation])
    assert refused.value.reason == "UNAUTHENTICATED"
    assert refused.value.status == (16 if nobody.name == "GRPC" else 401)
    assert "Bearer" in refused.value.challenge


@pytest.mark.conforms("CORE-LIST-001", "AUTH-SCOPE-002")
def test_a_list_has_only_own_tasks(ann: Driver, bob: Driver) -> None:
    context = fresh("context")
    own = completed(ann, contextId=context)
    page = bob.call("ListTasks", {"contextId": context})
    assert (page["tasks"], page["totalSize"]) == ([], 0)
    [listed] = ann.call("ListTasks", {"contextId": context})["tasks"]
    assert listed["id"] == own["id"]
    assert own["id"] not in [task["id"] for task in bob.call("ListTasks", {})["tasks"]]


@pytest.mark.conforms("AUTH-SCOPE-001", "AUTH-SCOPE-003", "CORE-GET-002")
def test_a_task_of_somebody_else_does_not_exist(ann: Driver, bob: Driver) -> None:
    task_id = interrupted(ann)["id"]
    unknown = "00000000-0000-4000-8000-000000000000"
    for operation, name in (
        ("GetTask", "id"),
        ("CancelTask", "id"),
        ("SubscribeToTask", "id"),
        ("SendMessage", "taskId"),
        ("SendStreamingMessage", "taskId"),
    ):
        errors = []
        for given in (task_id, unknown):
            params = {"id": given} if name == "id" else message(taskId=given)
            with pytest.raises(Refused) as refused:
                bob.call(operation, params)
            errors.append((refused.value.status, refused.value.reason, refused.value.error))
        assert errors[0] == errors[1]
        assert errors[0][1] == "TASK_NOT_FOUND"
    assert ann.call("GetTask", {"id": task_id})["status"]["state"] == INPUT_REQUIRED


def test_the_same_message_of_two_callers_makes_two_tasks(ann: Driver, bob: Driver) -> None:
    params = message(contextId="shared name")
    first, second = (one.call("SendMessage", params)["task"] for one in (ann, bob))
    assert first["id"] != second["id"]


@pytest.mark.conforms("AUTH-TLS-001", "AUTH-TLS-002", "GRPC-SVC-003")
def test_every_binding_can_be_reached_over_tls(
    make_log: Callable[[], StreamLog], tmp_path: Path
) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    pem = tmp_path / "server.pem"
    certificate.private_key_and_cert_chain_pem.write_to_path(str(pem))
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    trusted.minimum_version = ssl.TLSVersion.TLSv1_3
    key = certificate.private_key_pem.bytes()
    chain = b"".join(one.bytes() for one in certificate.cert_chain_pems)
    settings = A2A(card=card(), grpc_credentials=grpc.ssl_server_credentials([(key, chain)]))
    with (
        site(make_log(), settings, server={"ssl_certfile": str(pem)}) as server,
        httpx2.Client(verify=trusted, timeout=LIMIT) as http,
        closing(
            Connections(http, grpc.ssl_channel_credentials(authority.cert_pem.bytes()))
        ) as connections,
    ):
        url = server.url.replace("http://", "https://")
        found = http.get(f"{url}/.well-known/agent-card.json").json()["supportedInterfaces"]
        urls = {one["protocolBinding"]: one["url"] for one in found}
        assert urls == {"JSONRPC": f"{url}/a2a", "HTTP+JSON": f"{url}/a2a", "GRPC": server.grpc}
        for binding, driver in DRIVERS.items():
            completed(driver(connections, urls[binding], "ann-key"))
