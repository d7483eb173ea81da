"""Agents that are a little off: what they send is read, skipped or refused, and never a crash."""

from typing import Any

import pytest

from coreason_client._retry import Backoff
from coreason_client.a2a import (
    A2AClient,
    A2AEmptyResultError,
    A2AError,
    A2ANoSupportedInterfaceError,
    Task,
    TaskArtifactUpdateEvent,
    _options,
)
from coreason_client.a2a import _client_base as _polling
from coreason_client.a2a._v03._shapes import push_from_v03
from tests.a2a.loopback import CUT, Answer, Seen, as_json, serve, stream_of


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_options, "Backoff", lambda **given: Backoff(0.01, 0.02, **given))
    monkeypatch.setattr(_polling, "Backoff", lambda: Backoff(0.001, 0.002))


BAD_ADDRESSES = ["http://[", "https://", "ftp://agent.example", "http://a b", "http://x:port", ""]


def card(*urls: str) -> dict[str, Any]:
    interfaces = [
        {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"} for url in urls
    ]
    return {
        "name": "odd",
        "description": "",
        "version": "1",
        "supportedInterfaces": interfaces,
        "capabilities": {},
        "defaultInputModes": [],
        "defaultOutputModes": [],
        "skills": [],
    }


@pytest.mark.parametrize("url", BAD_ADDRESSES)
def test_an_interface_that_cannot_be_called_is_skipped(url: str) -> None:
    with pytest.raises(A2ANoSupportedInterfaceError):
        A2AClient.from_agent_card(card(url))
    with serve() as agent, A2AClient.from_agent_card(card(url, f"{agent.url}/rpc")) as client:
        assert client.send_message("say hello").text


def test_schemes_that_are_one_string_are_one_scheme() -> None:
    config = {"url": "https://hook.example", "authentication": {"schemes": "Bearer"}}
    read = push_from_v03({"taskId": "t", "pushNotificationConfig": config})
    assert read["authentication"]["scheme"] == "Bearer"


def test_an_empty_event_over_rest_is_an_error() -> None:
    def empty(seen: Seen) -> Answer | None:
        if not seen.path.endswith("message:stream"):
            return None
        return Answer(headers={"content-type": "text/event-stream"}, pieces=[b"data: {}\n\n"])

    rest = card()
    with serve() as agent:
        agent.rules.append(empty)
        rest["supportedInterfaces"] = [
            {"url": f"{agent.url}/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        ]
        with (
            A2AClient.from_agent_card(rest) as client,
            pytest.raises(A2AEmptyResultError, match="empty"),
        ):
            list(client.send_message_stream("count"))


SECRET = "sk_top_secret"


@pytest.mark.parametrize("how", ["refused", "error", "stream"])
def test_a_credential_that_an_agent_repeats_is_not_shown(how: str) -> None:
    def repeat(seen: Seen) -> Answer | None:
        if not seen.path.endswith("/rpc"):
            return None
        assert SECRET in seen.headers["authorization"]
        words = f"Bearer {SECRET} is not welcome"
        if how == "refused":
            return as_json({"error": {"message": words}}, 403)
        problem = {"jsonrpc": "2.0", "id": seen.json["id"], "error": {"code": -1, "message": words}}
        if how == "error":
            return as_json(problem)
        return stream_of([problem])

    with serve() as agent:
        agent.rules.append(repeat)
        with (
            A2AClient(f"{agent.url}/rpc", auth=SECRET) as client,
            pytest.raises(A2AError, match="is not welcome") as caught,
        ):
            if how == "stream":
                list(client.send_message_stream("count"))
            else:
                client.send_message("count")
    assert SECRET not in str(caught.value) + repr(caught.value)


# Streams that are cut


def played(*connections: list[Any]) -> Any:
    """Return a rule that answers one call after another, with a stream or with a task."""
    answers = iter(connections)

    def answer(seen: Seen) -> Answer:
        values = [
            value if value is CUT else {"jsonrpc": "2.0", "id": seen.json["id"], "result": value}
            for value in next(answers)
        ]
        return as_json(values[0]) if seen.json["method"] == "GetTask" else stream_of(values)

    return answer


def artifact(text: str, *, last: bool = False, append: bool = False) -> dict[str, Any]:
    found = {"artifactId": "a", "parts": [{"text": text}]}
    return {
        "artifactUpdate": {"taskId": "t", "artifact": found, "append": append, "lastChunk": last}
    }


def status(state: str, text: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"state": f"TASK_STATE_{state}"}
    if text is not None:
        parts = [{"text": text}]
        found["message"] = {"messageId": f"m-{text}", "role": "ROLE_AGENT", "parts": parts}
    return {"taskId": "t", "status": found}


def task(state: str, *texts: str, **fields: Any) -> dict[str, Any]:
    artifacts = [{"artifactId": "a", "parts": [{"text": text}]} for text in texts]
    return {"id": "t", "status": status(state)["status"], "artifacts": artifacts, **fields}


@pytest.mark.parametrize("delivered", [0, 1, 3])
def test_langgraph_has_its_answer_in_the_history(delivered: int) -> None:
    """A finished task has no artifacts, and a status that says no more than that it is finished."""
    working = [{"statusUpdate": status("WORKING", text)} for text in ("Par", "Paris", "Paris is")]
    history = [
        {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "Which town?"}]},
        {"messageId": "2", "role": "ROLE_AGENT", "parts": [{"text": "I look it up."}]},
        {"messageId": "3", "role": "ROLE_AGENT", "parts": [{"data": {"tool_results": []}}]},
        {"messageId": "4", "role": "ROLE_AGENT", "parts": [{"text": "Paris is it."}]},
    ]
    end = status("COMPLETED", "Task completed successfully")["status"]
    whole = task("COMPLETED", status=end, history=history)
    begun = {"task": task("SUBMITTED", history=history[:1])}
    with serve() as agent:
        rule = played([begun, *working[:delivered], CUT], [whole])
        agent.rules.append(_without_subscriptions(rule))
        with A2AClient(f"{agent.url}/rpc") as client:
            stream = client.send_message_stream("Which town?")
            events = list(stream)
            assert "".join(event.text for event in events) == stream.text == "Paris is it."
            assert stream.task is not None
            assert stream.task.text == "Paris is it."
    assert Task.model_validate(whole).text == "Paris is it."
    # Agents of the SDK answer in the status, and have their notes of progress in the history.
    answered = task("COMPLETED", status=status("COMPLETED", "42")["status"], history=history)
    assert Task.model_validate(answered).text == "42"


def _without_subscriptions(rule: Any) -> Any:
    def answer(seen: Seen) -> Answer:
        if seen.json["method"] == "SubscribeToTask":
            error = {"code": -32601, "message": "Method not found"}
            return as_json({"jsonrpc": "2.0", "id": seen.json["id"], "error": error})
        found: Answer = rule(seen)
        return found

    return answer


@pytest.mark.parametrize("max_retries", [1, 3])
def test_a_subscription_that_ends_empty_is_followed_by_the_task(max_retries: int) -> None:
    begun = [{"task": task("WORKING")}, artifact("Hel"), CUT]
    with serve() as agent:
        agent.rules.append(played(begun, [], [task("COMPLETED", "Hello")]))
        with A2AClient(f"{agent.url}/rpc", max_retries=max_retries) as client:
            stream = client.send_message_stream("x")
            assert "".join(event.text for event in stream) == stream.text == "Hello"


ALL = [{"task": task("WORKING")}, artifact("Hello"), artifact(" world", append=True), CUT]
DONE = {"statusUpdate": status("COMPLETED")}
SNAPSHOT = {"task": task("WORKING", "Hello world")}


@pytest.mark.parametrize(
    "connections",
    [
        ([SNAPSHOT, artifact("Hello", last=True), DONE],),
        ([SNAPSHOT, artifact("Hello"), DONE], [task("COMPLETED", "Hello")]),
        ([{"task": task("COMPLETED", "Hello")}],),
        ([CUT], [CUT], [{"task": task("COMPLETED", "Hello")}]),
        ([], [task("COMPLETED", "Hello")]),
    ],
    ids=["last chunk", "then the end", "snapshot", "later snapshot", "fetched"],
)
def test_an_artifact_that_was_rewritten_to_its_beginning_is_short(connections: Any) -> None:
    with serve() as agent:
        agent.rules.append(played(ALL, *connections))
        with A2AClient(f"{agent.url}/rpc") as client:
            stream = client.send_message_stream("x")
            events = list(stream)
            assert stream.text == "Hello"
            assert stream.task is not None
            assert stream.task.text == "Hello"
            rewritten = [event for event in events if isinstance(event, TaskArtifactUpdateEvent)]
            assert (rewritten[-1].text, rewritten[-1].append) == ("Hello", False)
