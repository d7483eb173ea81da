"""Both dialects: complete tables, real-shaped examples, round trips of what both can say."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.a2a._dialects import (
    ERRORS_BY_CODE,
    ERRORS_BY_REASON,
    OPERATIONS,
    V03,
    V10,
    dialect_of,
)
from coreason_client.a2a._v03._shapes import (
    card_from_v03,
    event_from_v03,
    push_from_v03,
    push_to_v03,
    send_to_v03,
)
from coreason_client.server.a2a._v03._conversions import event_to_v03, send_from_v03, task_to_v03

words = st.text(max_size=6)
structs = st.dictionaries(words, words, max_size=2)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), words)
values = st.one_of(
    scalars, st.lists(scalars, max_size=2), st.dictionaries(words, scalars, max_size=2)
)


def some(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


about = {
    "metadata": st.dictionaries(words, words, min_size=1, max_size=2),
    "filename": words,
    "mediaType": words,
}
parts = st.one_of(
    some({"text": words}, about),
    some({"raw": words}, about),
    some({"url": words}, about),
    some({"data": values}, about),
)
states = st.sampled_from(
    [
        "TASK_STATE_UNSPECIFIED",
        "TASK_STATE_SUBMITTED",
        "TASK_STATE_WORKING",
        "TASK_STATE_COMPLETED",
        "TASK_STATE_FAILED",
        "TASK_STATE_CANCELED",
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_REJECTED",
        "TASK_STATE_AUTH_REQUIRED",
        "TASK_STATE_NEVER_HEARD_OF",
    ]
)
messages = some(
    {
        "messageId": words,
        "role": st.sampled_from(["ROLE_USER", "ROLE_AGENT", "ROLE_GHOST"]),
        "parts": st.lists(parts, max_size=3),
    },
    {
        "contextId": words,
        "taskId": words,
        "metadata": structs,
        "extensions": st.lists(words, max_size=2),
        "referenceTaskIds": st.lists(words, max_size=2),
        "unheardOf": values,
    },
)
statuses = some({"state": states}, {"message": messages, "timestamp": words})
artifacts = some(
    {"artifactId": words, "parts": st.lists(parts, max_size=3)},
    {"name": words, "description": words, "metadata": structs},
)
ids = {"taskId": words, "contextId": words}
tasks = some(
    {"id": words, "contextId": words, "status": statuses},
    {
        "artifacts": st.lists(artifacts, max_size=2),
        "history": st.lists(messages, max_size=2),
        "metadata": structs,
    },
)
events = st.one_of(
    some({"task": tasks}, {}),
    some({"message": messages}, {}),
    some({"statusUpdate": some({**ids, "status": statuses}, {"metadata": structs})}, {}),
    some(
        {
            "artifactUpdate": some(
                {**ids, "artifact": artifacts},
                {"append": st.booleans(), "lastChunk": st.booleans()},
            )
        },
        {},
    ),
)
pushes = some(
    {"taskId": words, "url": words},
    {
        "id": words,
        "token": words,
        "authentication": some({"scheme": words}, {"credentials": words}),
    },
)
bare_pushes = pushes.map(lambda push: {k: v for k, v in push.items() if k != "taskId"})
sends = some(
    {"message": messages},
    {
        "metadata": structs,
        "configuration": some(
            {},
            {
                "acceptedOutputModes": st.lists(words, max_size=2),
                "historyLength": st.integers(0, 9),
                "returnImmediately": st.booleans(),
                "taskPushNotificationConfig": bare_pushes,
            },
        ),
    },
)


@pytest.mark.proves("R20a", "R20b")
@settings(max_examples=40)
@given(events)
def test_events_survive_the_other_dialect(event: dict[str, Any]) -> None:
    back = event_from_v03(event_to_v03(event))
    for update in back.values():
        update.pop("final", None)  # only 0.3 has this mark
    assert back == event


@pytest.mark.proves("R20b")
@settings(max_examples=40)
@given(sends)
def test_what_is_sent_survives_the_other_dialect(params: dict[str, Any]) -> None:
    assert send_from_v03(send_to_v03(params)) == params


@settings(max_examples=40)
@given(pushes)
def test_push_configurations_survive_the_other_dialect(config: dict[str, Any]) -> None:
    assert push_from_v03(push_to_v03(config)) == config


names = st.sampled_from(
    [
        *("kind", "status", "artifacts", "parts", "file", "metadata", "type", "skills", "schemes"),
        *("pushNotificationConfig", "authentication", "security", "securitySchemes"),
        "additionalInterfaces",
    ]
)
nonsense = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(nonsense)
def test_a_decoder_takes_anything_or_says_why_not(value: Any) -> None:
    for kind in V03.decode:
        with suppress(ValueError):
            V03.decoded(kind, value)


@pytest.mark.proves("R20a", "R20b")
def test_the_tables_are_complete() -> None:
    assert set(V10.methods) == set(V10.paths) == set(OPERATIONS)
    # 0.3 has no list over JSON-RPC.
    assert set(V03.methods) == set(V03.encode) == set(OPERATIONS) - {"list_tasks"}
    assert {operation.result for operation in OPERATIONS.values()} - {"nothing"} == {
        *V03.decode,
        "tasks",
    }
    assert sorted(ERRORS_BY_CODE) == [
        -32700,
        *range(-32603, -32599),
        *range(-32009, -32000),
    ]
    assert len(ERRORS_BY_REASON) == 9
    for reason, kind in ERRORS_BY_REASON.items():
        name = kind.__name__.removesuffix("Error")
        assert reason.replace("_", "").lower() == name.lower()


@pytest.mark.proves("R20c")
def test_versions() -> None:
    assert dialect_of("1.0") is dialect_of("1.0.1") is dialect_of("1") is V10
    assert dialect_of("0.3") is dialect_of("0.3.0") is dialect_of("0.2.6") is V03
    assert dialect_of("2.0") is dialect_of("0.1") is dialect_of("") is dialect_of("new") is None


@pytest.mark.proves("R20b")
def test_an_example_of_the_older_dialect() -> None:
    old = {
        "kind": "task",
        "id": "t",
        "contextId": "c",
        "status": {
            "state": "input-required",
            "message": {
                "kind": "message",
                "messageId": "m",
                "role": "agent",
                "parts": [
                    {"kind": "text", "text": "Which?"},
                    {
                        "kind": "file",
                        "file": {"uri": "https://f", "mimeType": "text/x", "name": "f", "size": 3},
                    },
                    {"kind": "data", "data": {"a": 1}, "metadata": {"b": 2}},
                ],
            },
            "timestamp": "2026-01-01T00:00:00Z",
        },
        "artifacts": [{"artifactId": "a", "parts": [{"kind": "file", "file": {"bytes": "AA=="}}]}],
    }
    new = {
        "id": "t",
        "contextId": "c",
        "status": {
            "state": "TASK_STATE_INPUT_REQUIRED",
            "message": {
                "messageId": "m",
                "role": "ROLE_AGENT",
                "parts": [
                    {"text": "Which?"},
                    {"url": "https://f", "mediaType": "text/x", "filename": "f", "size": 3},
                    {"data": {"a": 1}, "metadata": {"b": 2}},
                ],
            },
            "timestamp": "2026-01-01T00:00:00Z",
        },
        "artifacts": [{"artifactId": "a", "parts": [{"raw": "AA=="}]}],
    }
    assert event_from_v03(old) == {"task": new}
    assert V03.decode["task"](old) == new
    assert task_to_v03({**new, "status": {"state": "TASK_STATE_REJECTED"}})["status"] == {
        "state": "rejected"
    }


@pytest.mark.parametrize(
    ("event", "key"),
    [
        ({"id": "t", "status": {"state": "working"}}, "task"),
        ({"messageId": "m", "parts": [], "taskId": "t"}, "message"),
        ({"taskId": "t", "status": {"state": "working"}, "final": True}, "statusUpdate"),
        ({"taskId": "t", "artifact": {"artifactId": "a", "parts": []}}, "artifactUpdate"),
    ],
)
def test_events_without_a_kind_are_told_by_their_members(event: dict[str, Any], key: str) -> None:
    assert set(event_from_v03(event)) == {key}


def test_an_unknown_kind_stays_as_it_is() -> None:
    event = {"kind": "dream-update", "of": "sheep"}
    assert event_from_v03(event) == event
    assert event_from_v03({"of": "sheep"}) == {"of": "sheep"}
    assert event_to_v03({"dreamUpdate": 1}) == {"dreamUpdate": 1}


def test_parameters_of_the_older_dialect() -> None:
    assert V03.encode["get_task"]({"tenant": "x", "id": "t", "historyLength": 1}) == {
        "id": "t",
        "historyLength": 1,
    }
    assert V03.encode["get_push_config"]({"taskId": "t", "id": "p"}) == {
        "id": "t",
        "pushNotificationConfigId": "p",
    }
    assert V03.encode["list_push_configs"]({"taskId": "t"}) == {"id": "t"}
    assert V03.encode["get_extended_card"]({"tenant": "x"}) == {}
    config = {"taskId": "t", "url": "u", "authentication": {"scheme": "Bearer"}}
    assert V03.encode["create_push_config"](config) == {
        "taskId": "t",
        "pushNotificationConfig": {"url": "u", "authentication": {"schemes": ["Bearer"]}},
    }


@pytest.mark.proves("R20b")
def test_a_card_of_the_older_version() -> None:
    card = card_from_v03(
        {
            "name": "Old",
            "protocolVersion": "0.3.0",
            "url": "https://a.example/rpc",
            "preferredTransport": "JSONRPC",
            "additionalInterfaces": [
                {"url": "https://a.example/rpc", "transport": "JSONRPC"},
                {"url": "https://a.example/rest", "transport": "HTTP+JSON"},
            ],
            "capabilities": {"streaming": True},
            "supportsAuthenticatedExtendedCard": True,
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "odd": {"type": "magic"},
            },
            "security": [{"key": ["read"]}],
            "skills": [{"id": "s", "security": [{"key": []}]}],
        }
    )
    assert card["supportedInterfaces"] == [
        {"url": url, "protocolBinding": binding, "protocolVersion": "0.3.0"}
        for url, binding in (
            ("https://a.example/rpc", "JSONRPC"),
            ("https://a.example/rest", "HTTP+JSON"),
        )
    ]
    assert card["capabilities"] == {"streaming": True, "extendedAgentCard": True}
    assert card["securitySchemes"] == {
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
        "odd": {"type": "magic"},
    }
    assert card["securityRequirements"] == [{"schemes": {"key": {"list": ["read"]}}}]
    assert card["skills"][0]["securityRequirements"] == [{"schemes": {"key": {"list": []}}}]


def test_a_card_of_both_versions_says_what_the_newer_says() -> None:
    interface = {"url": "https://new.example", "protocolBinding": "JSONRPC"}
    card = card_from_v03(
        {"name": "Both", "supportedInterfaces": [interface], "url": "https://old.example"}
    )
    assert card["supportedInterfaces"] == [interface]
