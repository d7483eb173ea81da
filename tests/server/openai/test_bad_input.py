"""Requests that are refused: the error object of OpenAI, and the exception of the SDK."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import openai
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client.server import AgentApp, running

from .serving import KEYS, MODEL, OTHER_KEY, Agent, Site, sdk, site

MESSAGES = [{"role": "user", "content": "Hello"}]
MAX_BODY = 20_000
NOBODY = UUID(int=7 << 100).hex  # no stream has it


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site(max_body_bytes=MAX_BODY, max_messages=5) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Site) -> Iterator[openai.OpenAI]:
    with sdk(server.api, max_retries=2) as client:
        yield client


@pytest.fixture
def sent(client: openai.OpenAI) -> Iterator[list[Any]]:
    """The requests that are sent, which the SDK must not repeat."""
    found: list[Any] = []
    hooks = client._client.event_hooks
    client._client.event_hooks = {"request": [found.append]}
    yield found
    client._client.event_hooks = hooks


def check(
    error: openai.APIStatusError, status: int, code: str, param: str | None = None
) -> dict[str, Any]:
    """Check the class of an error and its body, and return the body."""
    kinds = {
        400: openai.BadRequestError,
        401: openai.AuthenticationError,
        404: openai.NotFoundError,
        409: openai.ConflictError,
    }
    assert type(error) is kinds.get(status, openai.APIStatusError)
    document: dict[str, Any] = error.response.json()
    assert document.keys() == {"error"}
    body: dict[str, Any] = document["error"]
    assert body.keys() == {"message", "type", "param", "code"}
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    assert (error.status_code, body["code"], body["param"], body["type"]) == (
        *(status, code, param),
        kind,
    )
    assert body["message"]
    assert (error.code, error.param) == (code, param)
    assert error.response.headers["content-type"] == "application/json"
    return body


BOTH: list[tuple[dict[str, Any], int, str, str | None]] = [
    ({"model": "gpt-5"}, 404, "model_not_found", "model"),
    ({"model": ""}, 400, "invalid_request", "model"),
    ({"model": 7}, 400, "invalid_request", "model"),
    ({"model": None}, 400, "invalid_request", "model"),
    ({"stream": "yes"}, 400, "invalid_request", "stream"),
    ({"n": 2}, 400, "unsupported_parameter", "n"),
    ({"tool_choice": "required"}, 400, "unsupported_parameter", "tool_choice"),
    ({"tool_choice": {"type": "mcp"}}, 400, "unsupported_parameter", "tool_choice"),
    (
        {"response_format": {"type": "json_object"}},
        *(400, "unsupported_parameter", "response_format"),
    ),
    ({"response_format": "json"}, 400, "unsupported_parameter", "response_format"),
    ({"text": {"format": {"type": "json_schema"}}}, 400, "unsupported_parameter", "text.format"),
    ({"modalities": ["text", "audio"]}, 400, "unsupported_parameter", "modalities"),
    ({"audio": {"voice": "alloy"}}, 400, "unsupported_parameter", "audio"),
    ({"logprobs": True}, 400, "unsupported_parameter", "logprobs"),
    ({"top_logprobs": 3}, 400, "unsupported_parameter", "top_logprobs"),
    ({"prompt": {"id": "pmpt_1"}}, 400, "unsupported_parameter", "prompt"),
]
CHAT: list[tuple[Any, str]] = [
    ({"messages": None}, "messages"),
    ({"messages": "Hello"}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": ["Hello"]}, "messages.0"),
    ({"messages": [{"content": "Hello"}]}, "messages.0.role"),
    ({"messages": [{"role": 7, "content": "Hello"}]}, "messages.0.role"),
    ({"messages": [{"role": "robot", "content": "Hello"}]}, "messages.0.role"),
    ({"messages": [{"role": "user"}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": [7]}]}, "messages.0.content.0"),
    (
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        "messages.0.content.0",
    ),
    (
        {"messages": [*MESSAGES, {"role": "user", "content": [{"type": "text", "text": 7}]}]},
        "messages.1.content.0",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "data:x"}]}]},
        "messages.0.content.0",
    ),
    ({"messages": [{"role": "assistant", "tool_calls": 7}]}, "messages.0.tool_calls"),
    ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages.0.tool_calls"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"function": 7}]}]},
        "messages.0.tool_calls",
    ),
    ({"messages": [{"role": "tool", "tool_call_id": 7, "content": "x"}]}, "messages.0"),
]
RESPONSES: list[tuple[Any, int, str, str]] = [
    ({"input": None}, 400, "invalid_request", "input"),
    ({"input": 7}, 400, "invalid_request", "input"),
    ({"input": []}, 400, "invalid_request", "input"),
    ({"input": ["Hello"]}, 400, "invalid_request", "input.0"),
    ({"input": [{"type": "computer_call"}]}, 400, "invalid_request", "input.0.type"),
    ({"input": [{"type": ["message"]}]}, 400, "invalid_request", "input.0.type"),
    (
        {"input": [{"role": "user", "content": [{"type": "x"}]}]},
        400,
        "invalid_request",
        "input.0.content.0",
    ),
    ({"input": [{"type": "function_call", "name": 7}]}, 400, "invalid_request", "input.0"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, 404, "response_not_found", "input"),
    (
        {"input": [{"type": "item_reference", "id": f"msg_{NOBODY}_0"}]},
        *(404, "response_not_found", "input"),
    ),
    ({"input": [{"type": "item_reference"}]}, 400, "invalid_request", "input.0.id"),
    ({"input": [{"type": "item_reference", "id": []}]}, 400, "invalid_request", "input.0.id"),
    ({"instructions": 7}, 400, "invalid_request", "instructions"),
    ({"background": "yes"}, 400, "invalid_request", "background"),
    ({"background": True, "store": False}, 400, "invalid_request", "background"),
    ({"conversation": 7}, 400, "invalid_request", "conversation"),
    ({"conversation": ""}, 400, "invalid_request", "conversation"),
    ({"conversation": {"id": "x" * 257}}, 400, "invalid_request", "conversation"),
    ({"conversation": "a\nb"}, 400, "invalid_request", "conversation"),
    ({"previous_response_id": "resp_1"}, 404, "response_not_found", "previous_response_id"),
    ({"previous_response_id": 7}, 404, "response_not_found", "previous_response_id"),
    (
        {"previous_response_id": f"resp_{NOBODY}"},
        *(404, "response_not_found", "previous_response_id"),
    ),
    (
        {"previous_response_id": f"resp_{NOBODY}", "conversation": "c"},
        *(400, "invalid_request", "previous_response_id"),
    ),
]


def refused(client: openai.OpenAI, path: str, body: Any, **headers: str) -> openai.APIStatusError:
    with pytest.raises(openai.APIStatusError) as caught:
        client.post(path, cast_to=object, body=body, options={"headers": headers})
    return caught.value


@pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
@pytest.mark.parametrize(("change", "status", "code", "param"), BOTH, ids=lambda value: str(value))
def test_a_parameter_is_refused(
    client: openai.OpenAI,
    sent: list[Any],
    path: str,
    change: dict[str, Any],
    status: int,
    code: str,
    param: str,
) -> None:
    body = {"model": MODEL, "messages": MESSAGES, "input": "Hello", **change}
    error = refused(client, path, body)
    check(error, status, code, param)
    assert len(sent) == 1


@pytest.mark.parametrize(("change", "param"), CHAT, ids=lambda value: str(value))
def test_a_chat_is_refused(client: openai.OpenAI, change: dict[str, Any], param: str) -> None:
    error = refused(client, "/chat/completions", {"model": MODEL, **change})
    check(error, 400, "invalid_request", param)


@pytest.mark.parametrize(
    ("change", "status", "code", "param"), RESPONSES, ids=lambda value: str(value)
)
def test_a_response_is_refused(
    client: openai.OpenAI, change: dict[str, Any], status: int, code: str, param: str
) -> None:
    error = refused(client, "/responses", {"model": MODEL, "input": "Hello", **change})
    check(error, status, code, param)


@pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
@pytest.mark.parametrize(
    ("content", "content_type", "status", "code"),
    [
        (b"{", "application/json", 400, "invalid_request"),
        (b"[]", "application/json", 400, "invalid_request"),
        (b"", "application/json", 400, "invalid_request"),
        (b"\xff{}", "application/json", 400, "invalid_request"),
        (b"{}", "text/plain", 415, "unsupported_media_type"),
        (b"{" + b" " * MAX_BODY + b"}", "application/json", 413, "body_too_large"),
    ],
)
def test_a_body_is_refused(
    client: openai.OpenAI,
    sent: list[Any],
    path: str,
    content: bytes,
    content_type: str,
    status: int,
    code: str,
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        client.post(
            path,
            cast_to=object,
            content=content,
            options={"headers": {"Content-Type": content_type}},
        )
    check(caught.value, status, code)
    assert len(sent) == 1


def test_too_many_messages_are_refused(client: openai.OpenAI) -> None:
    body = {"model": MODEL, "messages": MESSAGES * 6}
    check(refused(client, "/chat/completions", body), 400, "too_many_messages", "messages")


@pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
@pytest.mark.parametrize("key", ["", "x" * 257, "a\tb"])
def test_a_malformed_idempotency_key_is_refused(
    client: openai.OpenAI, sent: list[Any], path: str, key: str
) -> None:
    # A large body: the connection must not end before the client has read the answer.
    body = {"model": MODEL, "messages": MESSAGES, "input": "x" * (MAX_BODY - 1000)}
    error = refused(client, path, body, **{"Idempotency-Key": key})
    check(error, 400, "bad_idempotency_key")
    assert len(sent) == 1


# Stored responses


def calls_with(client: openai.OpenAI, name: str, item: str) -> list[Callable[[], object]]:
    """Return all calls that name a response, or an item of one."""
    responses = client.responses
    asked: Any = {"model": MODEL, "input": "Hi"}
    reference: Any = [{"type": "item_reference", "id": item}]
    return [
        lambda: responses.retrieve(name),
        lambda: responses.retrieve(name, stream=True),
        lambda: responses.retrieve(name, stream=True, starting_after=1),
        lambda: responses.cancel(name),
        lambda: responses.delete(name),
        lambda: responses.input_items.list(name),
        lambda: responses.create(**asked, previous_response_id=name),
        lambda: responses.create(model=MODEL, input=reference),
    ]


def test_the_response_of_another_caller_is_unknown(server: Site) -> None:
    with sdk(server.api) as ann, sdk(server.api, OTHER_KEY) as bob:
        made = ann.responses.create(model=MODEL, input="Hello")
        item = made.output[0].id
        assert item is not None
        foreign = calls_with(bob, made.id, item)
        unknown = calls_with(bob, f"resp_{NOBODY}", f"msg_{NOBODY}_0")
        for calls in zip(foreign, unknown, strict=True):
            bodies = []
            for call in calls:
                with pytest.raises(openai.NotFoundError) as caught:
                    call()
                assert caught.value.code == "response_not_found"
                bodies.append(caught.value.response.json())
            assert bodies[0] == bodies[1]
        assert ann.responses.retrieve(made.id).output_text == "You said Hello"


@pytest.mark.parametrize("name", ["resp_", "resp_1", "x", f"resp_{NOBODY[:-1]}A", "resp_é"])
def test_an_id_of_another_form_is_unknown(client: openai.OpenAI, name: str) -> None:
    for call in (
        client.responses.retrieve,
        client.responses.cancel,
        client.responses.delete,
        client.responses.input_items.list,
    ):
        with pytest.raises(openai.NotFoundError) as caught:
            call(name)
        check(caught.value, 404, "response_not_found", "response_id")


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "+1", "1_0", "٣", "9" * 17])
def test_a_position_that_is_not_a_number_is_refused(client: openai.OpenAI, after: str) -> None:
    made = client.responses.create(model=MODEL, input="Hello")
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.retrieve(made.id, stream=True, extra_query={"starting_after": after})
    check(caught.value, 400, "invalid_request", "starting_after")


def test_a_position_after_the_end_is_gone(client: openai.OpenAI, sent: list[Any]) -> None:
    made = client.responses.create(model=MODEL, input="Hello")
    whole = list(client.responses.retrieve(made.id, stream=True))
    rest = client.responses.retrieve(made.id, stream=True, starting_after=len(whole) - 1)
    assert list(rest) == []
    del sent[:]
    for after in (len(whole), 10**15):
        with pytest.raises(openai.APIStatusError) as caught:
            client.responses.retrieve(made.id, stream=True, starting_after=after)
        check(caught.value, 410, "position_gone", "starting_after")
    assert len(sent) == 2


def test_the_stream_flag_must_be_a_flag(client: openai.OpenAI) -> None:
    made = client.responses.create(model=MODEL, input="Hello")
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.retrieve(made.id, extra_query={"stream": "yes"})
    check(caught.value, 400, "invalid_request", "stream")


def test_a_response_that_runs_cannot_be_continued(server: Site, client: openai.OpenAI) -> None:
    made = client.responses.create(model=MODEL, input="Wait", background=True)
    with pytest.raises(openai.ConflictError) as caught:
        client.responses.create(model=MODEL, input="Hi", previous_response_id=made.id)
    check(caught.value, 409, "response_in_progress", "previous_response_id")
    assert client.responses.cancel(made.id).status == "cancelled"


# Keys and paths


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "/models"),
        ("get", f"/models/{MODEL}"),
        ("post", "/chat/completions"),
        ("post", "/responses"),
        ("get", "/responses/resp_1"),
        ("delete", "/responses/resp_1"),
        ("post", "/responses/resp_1/cancel"),
        ("get", "/responses/resp_1/input_items"),
    ],
)
def test_a_caller_without_a_valid_key_is_refused(server: Site, method: str, path: str) -> None:
    for headers in ({}, {"Authorization": openai.Omit()}, {"Idempotency-Key": "x" * 257}):
        with (
            sdk(server.api, "wrong-key") as client,
            pytest.raises(openai.AuthenticationError) as caught,
        ):
            getattr(client, method)(path, cast_to=object, options={"headers": headers})
        check(caught.value, 401, "unauthorized")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("post", "/models", 405, "method_not_allowed"),
        ("get", "/chat/completions", 405, "method_not_allowed"),
        ("get", "/responses", 405, "method_not_allowed"),
        ("post", "/responses/resp_1", 405, "method_not_allowed"),
        ("get", "/responses/resp_1/cancel", 405, "method_not_allowed"),
        ("delete", "/responses/resp_1/input_items", 405, "method_not_allowed"),
        ("get", "/embeddings", 404, "not_found"),
        ("post", "/embeddings", 404, "not_found"),
        ("get", "/conversations/conv_1", 404, "not_found"),
        ("get", "/assistants", 404, "not_found"),
        ("post", "/responses/resp_1/unknown", 404, "not_found"),
        ("get", "/chat/completions/chatcmpl-1", 404, "not_found"),
    ],
)
def test_an_unknown_path_or_method_is_refused(
    client: openai.OpenAI, sent: list[Any], method: str, path: str, status: int, code: str
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        getattr(client, method)(path, cast_to=object)
    check(caught.value, status, code)
    assert len(sent) == 1


@pytest.mark.parametrize("options", [{}, {"root_path": "/proxied"}], ids=["mounted", "proxied"])
def test_a_path_before_that_of_the_api_changes_no_error(options: dict[str, Any]) -> None:
    agent = AgentApp(Agent(), openai=True, agent_id=MODEL, api_keys=KEYS, **options)
    app = Starlette(routes=[Mount("/below", agent)], lifespan=agent.lifespan)
    with running(app) as server, sdk(f"{server.url}/below/v1") as client:
        assert client.responses.create(model=MODEL, input="Hello").output_text == "You said Hello"
        check(refused(client, "/embeddings", {}), 404, "not_found")
        with pytest.raises(openai.NotFoundError) as caught:
            client.responses.retrieve("resp_1")
        check(caught.value, 404, "response_not_found", "response_id")


# Limits


def test_a_limit_tells_when_to_try_again() -> None:
    with site(max_requests_per_minute=1) as server, sdk(server.api) as client:
        client.responses.create(model=MODEL, input="Hello")
        with pytest.raises(openai.RateLimitError) as caught:
            client.responses.create(model=MODEL, input="Hello")
        assert (caught.value.code, caught.value.type) == ("too_many_requests", "rate_limit_error")
        headers = caught.value.response.headers
        assert "x-should-retry" not in headers
        assert 0 < int(headers["retry-after"]) <= 60  # the SDK does not wait longer


# Accepted


@pytest.mark.parametrize(
    "change",
    [
        {"tools": [], "tool_choice": "auto"},
        {"tools": [{"type": "function"}], "functions": [{"name": "f"}], "tool_choice": "auto"},
        {"tool_choice": "none", "parallel_tool_calls": True},
        {"n": 1, "logprobs": False, "top_logprobs": 0},
        {"response_format": {"type": "text"}, "modalities": ["text"], "audio": None},
        {"text": {"format": {"type": "text"}, "verbosity": "low"}, "reasoning": {"effort": "low"}},
        {"temperature": 0.2, "top_p": 1, "max_tokens": 5, "seed": 7, "stop": ["x"], "user": "u"},
        {"metadata": {"a": "b"}, "store": True, "service_tier": "auto", "truncation": "auto"},
        {"stream": None, "stream_options": None, "conversation": None, "instructions": None},
        {"a parameter of tomorrow": {"x": [1]}},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
def test_a_parameter_that_changes_nothing_is_accepted(
    client: openai.OpenAI, path: str, change: dict[str, Any]
) -> None:
    body = {"model": MODEL, "messages": MESSAGES, "input": "Hello", **change}
    answer: Any = client.post(path, cast_to=object, body=body)
    assert "You said Hello" in str(answer)


# Failures of the agent


def test_an_agent_that_fails_is_an_error_of_the_server(
    client: openai.OpenAI, sent: list[Any]
) -> None:
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Fail"}]}
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(**asked)
    assert (caught.value.code, caught.value.message[:5]) == ("no_fuel", "Error")
    assert len(sent) == 1  # it would fail again
    with pytest.raises(openai.APIError, match="The tank is empty") as streamed:
        list(client.chat.completions.create(**asked, stream=True))
    assert streamed.value.code == "no_fuel"
    failed = client.responses.create(model=MODEL, input="Fail")
    assert (failed.status, failed.output_text) == ("failed", "Half of ")
    assert failed.error is not None
    assert failed.error.code == "server_error"
    assert failed.error.message == "no_fuel: The tank is empty."
    assert failed.metadata == {"problem": "no_fuel"}
    *_, last = client.responses.create(model=MODEL, input="Fail", stream=True)
    assert last.type == "response.failed"


def test_an_agent_that_rejects_a_request_is_a_bad_request(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Reject"}]}
    with pytest.raises(openai.BadRequestError, match="Not this") as caught:
        client.chat.completions.create(**asked)
    check(caught.value, 400, "rejected")


def test_a_question_is_the_text_of_a_complete_response(client: openai.OpenAI) -> None:
    asked = client.responses.create(model=MODEL, input="Ask")
    assert (asked.status, asked.output_text) == ("completed", "Where?")
    assert asked.metadata == {"waiting_for": "input_required"}
