"""Hooks of both clients, over real connections."""

import asyncio
import dataclasses
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from coreason_client import Secret
from coreason_client.llm import (
    Budget,
    LLMAuthenticationError,
    LLMConnectionError,
    LLMError,
    LLMServerError,
    RequestInfo,
    ResponseInfo,
)
from tests.llm.server import Provider, Replied

from .collect import KEY, MESSAGES, SSE, answer, asynchronously, streamed, synchronously

BUSY = Replied(503, {"x-request-id": "r0"}, b'{"error": {"message": "busy"}}')
REFUSED = Replied(401, body=b'{"error": {"message": "bad key", "code": "invalid_api_key"}}')


class Log:
    """Hooks that keep what they were given."""

    def __init__(self) -> None:
        self.requests: list[RequestInfo] = []
        self.responses: list[ResponseInfo] = []
        self.order: list[str] = []

    def on_request(self, info: RequestInfo) -> None:
        self.requests.append(info)
        self.order.append(f"request {info.attempt}")

    def on_response(self, info: ResponseInfo) -> None:
        self.responses.append(info)
        self.order.append(f"response {info.attempt}")

    def hooks(self) -> dict[str, Any]:
        return {"on_request": self.on_request, "on_response": self.on_response}


def generate(server: Provider, client: str, *, call: Any = None, **options: Any) -> Any:
    call = call or {}
    run: Callable[..., Any] = synchronously if client == "sync" else asynchronously
    return run(server, lambda c: c.generate(MESSAGES, **call), **options)


def read(server: Provider, client: str, *, call: Any = None, **options: Any) -> Any:
    call = call or {}
    run: Callable[..., Any] = synchronously if client == "sync" else asynchronously
    return run(server, lambda c: c.stream(MESSAGES, **call).result(), **options)


both = pytest.mark.parametrize("client", ["sync", "async"])
calls = pytest.mark.parametrize("perform", [generate, read])


def good(perform: Any) -> Replied:
    return answer() if perform is generate else streamed("Par", "is")


@both
@calls
def test_a_call_is_reported_before_and_after(server: Provider, client: str, perform: Any) -> None:
    server.replies = [good(perform)]
    log = Log()
    perform(server, client, **log.hooks())
    assert log.order == ["request 1", "response 1"]
    [request], [response] = log.requests, log.responses
    stream = perform is read
    assert (request.provider, request.model) == ("openai-compatible", "m")
    assert request.url == response.url == f"{server.url}/v1/chat/completions"
    assert (request.attempt, request.stream, response.stream) == (1, stream, stream)
    assert json.loads(request.body) == server.received[0].json
    assert request.headers["Content-Type"] == "application/json"
    assert (response.provider, response.model, response.status) == ("openai-compatible", "m", 200)
    assert response.headers["content-type"]
    assert response.error is None
    assert response.usage is not None
    assert response.usage["total_tokens"] == 50
    assert 0 < response.seconds < 10
    assert (response.body is None) is stream
    if response.body is not None:
        assert json.loads(response.body)["id"] == "chatcmpl-7"


@both
@calls
def test_each_attempt_is_reported(server: Provider, client: str, perform: Any) -> None:
    server.replies = [BUSY, Replied(body=b""), BUSY, good(perform)]
    log = Log()
    perform(server, client, max_retries=1, call={"fallbacks": ["other"]}, **log.hooks())
    assert log.order == [
        f"{kind} {number}" for number in (1, 2, 3, 4) for kind in ("request", "response")
    ]
    assert [info.model for info in log.responses] == ["m", "m", "other", "other"]
    assert [info.status for info in log.responses] == [503, 200, 503, 200]
    kinds = [type(info.error).__name__ for info in log.responses]
    assert kinds == ["LLMServerError", "LLMResponseError", "LLMServerError", "NoneType"]
    assert log.responses[0].headers["x-request-id"] == "r0"
    assert log.responses[0].body == BUSY.body


@both
@calls
def test_a_failed_call_is_reported(server: Provider, client: str, perform: Any) -> None:
    server.replies = [REFUSED]
    log = Log()
    with pytest.raises(LLMAuthenticationError) as caught:
        perform(server, client, **log.hooks())
    [response] = log.responses
    assert response.error is caught.value
    assert (response.status, response.usage) == (401, None)


@both
def test_a_connection_that_fails_has_no_status(server: Provider, client: str) -> None:
    log = Log()
    server.replies = [Replied(cut=True, chunks=[b"{"])]
    with pytest.raises(LLMConnectionError):
        generate(server, client, max_retries=0, **log.hooks())
    [response] = log.responses
    assert (response.status, response.headers, response.body) == (None, {}, None)


@both
def test_a_stream_that_breaks_is_reported_once(server: Provider, client: str) -> None:
    server.replies = [streamed("Par", end=b"", cut=True)]
    log = Log()
    with pytest.raises(LLMConnectionError):
        read(server, client, **log.hooks())
    [response] = log.responses
    assert isinstance(response.error, LLMConnectionError)
    assert response.error.partial is not None
    assert response.status == 200


@both
def test_a_stream_that_restarts_is_reported_for_each_request(server: Provider, client: str) -> None:
    server.replies = [streamed("Par", end=b"", cut=True), streamed("Paris")]
    log = Log()
    read(server, client, call={"on_break": "restart"}, **log.hooks())
    assert log.order == ["request 1", "response 1", "request 2", "response 2"]
    assert [type(info.error).__name__ for info in log.responses] == [
        "LLMConnectionError",
        "NoneType",
    ]


# Calls that their caller ends.


def test_a_stream_that_is_closed_early_is_reported(server: Provider) -> None:
    server.replies = [streamed("Par", end=b"", hold=True)]
    log = Log()

    def work(client: Any) -> None:
        with client.stream(MESSAGES) as stream:
            next(stream)
        assert log.order == ["request 1", "response 1"]

    synchronously(server, work, **log.hooks())
    assert isinstance(log.responses[0].error, GeneratorExit)


def test_a_cancelled_call_is_reported(server: Provider) -> None:
    server.replies = [Replied(silent=True)]
    log = Log()

    async def work(client: Any) -> None:
        task = asyncio.ensure_future(client.generate(MESSAGES))
        async with asyncio.timeout(5):
            while not server.received:  # noqa: ASYNC110 - the server is in another thread
                await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asynchronously(server, work, **log.hooks())
    assert isinstance(log.responses[0].error, asyncio.CancelledError)


# Hooks that raise.


class Veto(Exception):
    """The error that a hook raises."""


@both
@calls
def test_a_hook_may_refuse_a_request(server: Provider, client: str, perform: Any) -> None:
    def refuse(_: RequestInfo) -> None:
        raise Veto

    log = Log()
    with pytest.raises(Veto):
        perform(
            server,
            client,
            call={"fallbacks": ["other"]},
            on_request=refuse,
            on_response=log.on_response,
        )
    assert (server.received, log.responses) == ([], [])


@both
def test_a_hook_may_refuse_a_retry(server: Provider, client: str) -> None:
    def refuse(info: RequestInfo) -> None:
        if info.attempt > 1:
            raise Veto

    log = Log()
    server.replies = [BUSY]
    with pytest.raises(Veto):
        generate(server, client, on_request=refuse, on_response=log.on_response)
    assert len(server.received) == len(log.responses) == 1


@both
@calls
def test_an_answer_is_not_lost_if_a_hook_raises(
    server: Provider, client: str, perform: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: ResponseInfo) -> None:
        raise Veto

    server.replies = [BUSY, good(perform)]
    with caplog.at_level(logging.ERROR):
        response = perform(server, client, on_response=fail)
    assert response["data"]["content"] == "Paris"
    assert [record.message for record in caplog.records] == ["on_response raised Veto"] * 2


def test_a_hook_may_call_the_client(server: Provider) -> None:
    server.replies = [answer()]

    def work(client: Any) -> None:
        client.generate(MESSAGES)

    log: list[int] = []
    synchronously(server, work, on_response=lambda info: log.append(info.attempt))
    assert log == [1]


# What hooks may do with their argument.


def test_the_argument_cannot_be_changed(server: Provider) -> None:
    server.replies = [answer()]
    log = Log()
    response = generate(server, "sync", **log.hooks())
    for info in (log.requests[0], log.responses[0]):
        with pytest.raises(dataclasses.FrozenInstanceError):
            info.attempt = 2  # type: ignore[misc]
    usage = log.responses[0].usage
    assert usage is not None
    usage["total_tokens"] = 0
    assert response["usage"]["total_tokens"] == 50


@both
@calls
def test_hooks_get_no_secret(server: Provider, client: str, perform: Any) -> None:
    """The provider repeats every secret in its headers and bodies."""
    secrets = [KEY, "cookie-0123456789", "header-0123456789", "query-0123456789"]
    headers = {"Cookie": f"a={secrets[1]}", "X-Tenant": Secret(secrets[2])}
    text = " ".join(secrets[:3])
    echo = {"x-echo": text, "set-cookie": "session=new"}
    bad = Replied(503, echo, json.dumps({"error": {"message": text}}).encode())
    body = good(perform)
    server.replies = [bad, dataclasses.replace(body, headers={**body.headers, **echo})]
    log = Log()
    perform(
        server,
        client,
        headers=headers,
        base_url=f"{server.url}/v1?api_key={secrets[3]}",
        **log.hooks(),
    )
    assert secrets[3] in server.received[0].path
    assert server.received[0].headers["x-tenant"] == secrets[2]
    assert len(log.requests) == len(log.responses) == 2
    for info in (*log.requests, *log.responses):
        seen = str(dataclasses.asdict(info) if info in log.requests else _fields(info))
        assert "session=new" not in seen
        assert not [secret for secret in secrets if secret in seen]
    assert log.requests[0].headers["Authorization"] == "***"
    assert log.responses[0].headers["set-cookie"] == "***"


def _fields(info: Any) -> dict[str, Any]:
    """Return the fields and the text of the error."""
    return {**{f.name: getattr(info, f.name) for f in dataclasses.fields(info)}, "text": repr(info)}


def test_the_repr_shows_neither_headers_nor_body(server: Provider) -> None:
    server.replies = [answer()]
    log = Log()
    generate(server, "sync", **log.hooks())
    for info in (log.requests[0], log.responses[0]):
        assert "content-type" not in repr(info).lower()
        assert "France" not in repr(info)


def test_an_error_is_shared_with_the_caller(server: Provider) -> None:
    server.replies = [BUSY]
    log = Log()
    with pytest.raises(LLMServerError) as caught:
        generate(server, "sync", max_retries=0, **log.hooks())
    assert log.responses[-1].error is caught.value
    assert isinstance(caught.value, LLMError)


def test_a_stream_that_is_answered_with_json_has_a_body(server: Provider) -> None:
    server.replies = [answer()]
    log = Log()
    read(server, "sync", **log.hooks())
    assert log.responses[0].body == server.replies[0].body
    assert SSE["content-type"] != log.responses[0].headers["content-type"]


def test_a_request_that_a_hook_refuses_costs_nothing(server: Provider) -> None:
    """The budget is large enough for one reservation, not for two."""
    server.replies = [answer()]
    refusing = [True]

    def refuse(_: RequestInfo) -> None:
        if refusing.pop():
            raise Veto

    def work(client: Any) -> None:
        with pytest.raises(Veto):
            client.generate(MESSAGES)
        refusing.append(False)
        assert client.generate(MESSAGES)["data"]["content"] == "Paris"

    budget = Budget(0.003, period=86_400, unpriced=1e-6)
    synchronously(server, work, on_request=refuse, budgets=budget)
