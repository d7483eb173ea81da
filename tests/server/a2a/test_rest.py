"""HTTP+JSON requests and responses."""

from typing import Any

import pytest
from pydantic_core import from_json

from coreason_client.a2a import _dialects
from coreason_client.a2a._v03._rest import V03_REST
from coreason_client.a2a.errors import InvalidParamsError, TaskNotFoundError
from coreason_client.server.a2a._rest import RouteMatch, failure, match, parse_params, result

IDS = {"id": "one", "taskId": "two"}
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi"}]}


@pytest.mark.parametrize(
    ("dialect", "version"), [(_dialects.V10, "1.0"), (V03_REST, "0.3")], ids=["1.0", "0.3"]
)
@pytest.mark.parametrize("end", ["", "/"])
def test_each_path_is_an_operation(dialect: _dialects.Dialect, version: str, end: str) -> None:
    for operation, (verb, template) in dialect.paths.items():
        found = match(verb, template.format(**IDS) + end, version)
        assert found is not None
        assert (found.operation, found.version) == (operation, version)
        assert found.params == {name: IDS[name] for name in IDS if f"{{{name}}}" in template}


@pytest.mark.parametrize(
    ("verb", "path", "version"),
    [
        ("GET", "/nothing", "1.0"),
        ("GET", "/message:send", "1.0"),
        ("DELETE", "/tasks/one", "1.0"),
        ("GET", "/", "1.0"),
        ("POST", "/message:send", "0.3"),  # 0.3 has its paths below /v1
        ("GET", "/a/b/c/tasks", "1.0"),
    ],
)
def test_other_paths_are_none(verb: str, path: str, version: str) -> None:
    assert match(verb, path, version) is None


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_a_subscription_may_use_both_verbs(verb: str) -> None:
    found = match(verb, "/tasks/one:subscribe", "1.0")
    assert found == RouteMatch("resubscribe", {"id": "one"}, "1.0")


def test_a_tenant_may_precede_the_path() -> None:
    found = match("GET", "/acme/tasks/one", "1.0")
    assert found == RouteMatch("get_task", {"id": "one", "tenant": "acme"}, "1.0")


def test_parameters_come_from_path_query_and_body() -> None:
    listing = RouteMatch("list_tasks", {"tenant": "acme"}, "1.0")
    query = {"pageSize": "5", "includeArtifacts": "true", "contextId": "c"}
    assert parse_params(listing, query, None) == {
        "pageSize": 5,
        "includeArtifacts": True,
        "contextId": "c",
        "tenant": "acme",
    }
    create = RouteMatch("create_push_config", {"taskId": "two"}, "1.0")
    assert parse_params(create, {}, {"url": "u", "taskId": "other"}) == {
        "url": "u",
        "taskId": "two",
    }


def test_parameters_may_have_the_names_of_the_proto_file() -> None:
    listing = RouteMatch("list_tasks", {}, "1.0")
    assert parse_params(listing, {"page_size": "5"}, None) == {"pageSize": 5}
    create = RouteMatch("create_push_config", {"taskId": "two"}, "1.0")
    assert parse_params(create, {}, {"task_id": "other"}) == {"taskId": "two"}


@pytest.mark.parametrize(
    ("query", "body"),
    [({"pageSize": "many"}, None), ({"includeArtifacts": "yes"}, None), ({}, [1]), ({}, "text")],
)
def test_wrong_parameters_are_refused(query: dict[str, str], body: Any) -> None:
    with pytest.raises(InvalidParamsError):
        parse_params(RouteMatch("list_tasks", {}, "1.0"), query, body)


def test_the_older_version_has_its_own_shapes() -> None:
    sending = RouteMatch("send_message", {}, "0.3")
    old = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "Hi"}]}
    params = parse_params(sending, {}, {"request": old, "configuration": {"blocking": True}})
    assert params["message"] == MESSAGE
    assert params["configuration"] == {"returnImmediately": False}
    status = {"state": "TASK_STATE_CANCELED", "message": MESSAGE}
    event = {"statusUpdate": {"taskId": "t", "status": status, "generation": 2}}
    shown = from_json(result("0.3", "event", event))["statusUpdate"]
    assert shown["final"] is True
    assert shown["status"]["state"] == "TASK_STATE_CANCELLED"
    assert shown["status"]["message"]["content"] == [{"text": "Hi"}]
    assert from_json(result("1.0", "event", event)) == event
    assert result("0.3", "event", None) == b"null"  # the client has left


def test_errors_have_the_format_of_their_version() -> None:
    status, body = failure("1.0", TaskNotFoundError("There is none."))
    error = from_json(body)["error"]
    assert (status, error["code"], error["status"]) == (404, 404, "NOT_FOUND")
    assert error["details"][0]["reason"] == "TASK_NOT_FOUND"
    status, body = failure("0.3", TaskNotFoundError("There is none."))
    assert (status, from_json(body)["message"]) == (404, "There is none.")
