"""Push configurations: what is accepted, stored and shown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.a2a.errors import InvalidParamsError
from coreason_client.server.a2a._protocol import V03, V10
from coreason_client.server.a2a._push._configs import (
    PushConfig,
    config_id_of,
    page_of,
)
from coreason_client.server.a2a._push._urls import URLRules

RULES = URLRules()
FULL = {
    "id": "mine",
    "url": "https://example.org/hook",
    "token": "a token",
    "authentication": {"scheme": "Bearer", "credentials": "s3cret"},
}


def test_secrets_are_stored_and_never_shown() -> None:
    config = PushConfig.parse(FULL, RULES, V10)
    assert PushConfig.load(config.dump()) == config
    assert config.shown("t") == {
        "taskId": "t",
        "id": "mine",
        "url": "https://example.org/hook",
        "authentication": {"scheme": "Bearer"},
    }
    assert config.headers == {
        "Content-Type": "application/a2a+json",
        "A2A-Version": "1.0",
        "X-A2A-Notification-Token": "a token",
        "Authorization": "Bearer s3cret",
    }
    assert config.host == "example.org"
    assert config.target(RULES).target == "/hook"


def test_a_client_of_the_older_version_gets_tasks() -> None:
    config = PushConfig.parse({"url": FULL["url"]}, RULES, V03)
    assert config.wants_tasks
    assert config.headers == {"Content-Type": "application/json", "A2A-Version": "0.3"}
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    assert b'"kind":"task"' in config.dump_event({"task": task})
    assert PushConfig.parse(FULL, RULES, V10).dump_event({"task": task}).startswith(b'{"task":')


def test_a_missing_id_is_generated() -> None:
    ids = {PushConfig.parse({"url": FULL["url"]}, RULES, V10).id for _ in range(3)}
    assert len(ids) == 3
    assert all(ids)


@pytest.mark.parametrize(
    "authentication", [None, {}, {"scheme": ""}, {"scheme": "", "credentials": ""}]
)
def test_no_authentication(authentication: Any) -> None:
    config = PushConfig.parse({**FULL, "authentication": authentication}, RULES, V10)
    assert "authentication" not in config.shown("t")
    assert "Authorization" not in config.headers


def test_a_scheme_without_credentials_sends_no_header() -> None:
    config = PushConfig.parse({**FULL, "authentication": {"scheme": "Bearer"}}, RULES, V10)
    assert config.shown("t")["authentication"] == {"scheme": "Bearer"}
    assert "Authorization" not in config.headers


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": None}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"id": 7}, "id"),
        ({"id": "x" * 257}, "id"),
        ({"id": "a\nb"}, "id"),
        ({"token": "a\r\nX-Evil: 1"}, "token"),
        ({"token": "a\nb"}, "token"),
        ({"token": "a\0"}, "token"),
        ({"token": "\x7f"}, "token"),
        ({"token": "é"}, "token"),
        ({"token": " a"}, "token"),
        ({"token": "a\t"}, "token"),
        ({"token": "x" * 4097}, "token"),
        ({"token": 7}, "token"),
        ({"authentication": "Bearer"}, "authentication"),
        ({"authentication": {"scheme": "Bearer x"}}, "authentication.scheme"),
        ({"authentication": {"scheme": "Bearer\r\n"}}, "authentication.scheme"),
        ({"authentication": {"scheme": ["Bearer"]}}, "authentication.scheme"),
        ({"authentication": {"credentials": "c"}}, "authentication.scheme"),
        (
            {"authentication": {"scheme": "Bearer", "credentials": "c\r\nd"}},
            "authentication.credentials",
        ),
    ],
)
def test_what_is_refused_is_named_without_its_value(change: Any, field: str) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        PushConfig.parse({**FULL, **change}, RULES, V10, "push.")
    assert caught.value.message.startswith(f"push.{field} ")
    for secret in ("s3cret", "Evil", "c\r\nd"):
        assert secret not in caught.value.message


def test_a_configuration_is_an_object() -> None:
    with pytest.raises(InvalidParamsError, match=r"configuration\.push must be an object"):
        PushConfig.parse("no", RULES, V10, "configuration.push.")


@given(st.text(max_size=20))
def test_what_is_accepted_fits_into_a_header(text: str) -> None:
    given_ = {**FULL, "token": text, "authentication": {"scheme": "B", "credentials": text}}
    try:
        config = PushConfig.parse(given_, RULES, V10)
    except InvalidParamsError:
        return
    for value in config.headers.values():
        assert value.isascii()
        assert value.isprintable()
        assert value == value.strip()


def test_ids() -> None:
    assert config_id_of({}) is None
    assert config_id_of({"id": ""}) is None
    assert config_id_of({"id": "é 1"}) == "é 1"


@given(st.integers(0, 10), st.one_of(st.none(), st.integers(0, 4)))
def test_pages_have_every_configuration_once(count: int, size: int | None) -> None:
    configs = [{"id": f"{number:02}"} for number in range(count)]
    seen: list[Any] = []
    token = ""
    while True:
        page = page_of(configs, {"pageSize": size, "pageToken": token})
        assert len(page["configs"]) <= (size or 10)
        seen += page["configs"]
        token = page["nextPageToken"]
        if not token:
            break
    assert seen == configs


@pytest.mark.parametrize(
    "params", [{"pageSize": -1}, {"pageSize": "1"}, {"pageSize": True}, {"pageToken": 1}]
)
def test_wrong_pages(params: Any) -> None:
    with pytest.raises(InvalidParamsError):
        page_of([], params)
