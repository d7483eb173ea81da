"""Keys from callables: called for each call, once more after a 401, and never shown."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coreason_client.llm import (
    AsyncLLMClient,
    AWSCredentials,
    LLMAuthenticationError,
    LLMClient,
    LLMError,
    LLMRequestError,
    LLMTimeoutError,
)
from coreason_client.llm._plan import FetchKey, KeyFetcher
from coreason_client.llm._route import Target
from tests.llm.play import BASE, LOGGER, MESSAGES, Play, Streaming, refusal, reply
from tests.llm.server import Received, Replied, provider

TOKENS = ("token-number-1", "token-number-2", "token-number-3")


class Tokens:
    """A callable that returns one token after another and counts its calls."""

    def __init__(self, *tokens: Any) -> None:
        self.tokens = list(tokens or TOKENS)
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        token = self.tokens.pop(0)
        if isinstance(token, Exception):
            raise token
        return token


def played(source: Any, *outcomes: Any, play: type[Play] = Play, **options: Any) -> Play:
    return play(*outcomes, target=Target(BASE, source, options.pop("keys", {})), **options)


def sent(play: Play) -> list[str]:
    return [request.headers["Authorization"] for request in play.requests]


def bearer(*tokens: str) -> list[str]:
    return [f"Bearer {token}" for token in tokens]


def test_the_callable_is_called_before_the_first_attempt() -> None:
    tokens = Tokens()
    play = played(tokens, reply())
    assert tokens.calls == 0
    assert play.run()["status"] == "success"
    assert (tokens.calls, sent(play)) == (1, bearer(TOKENS[0]))


def test_retries_use_the_same_key() -> None:
    tokens = Tokens()
    play = played(tokens, refusal(500), refusal(429), reply())
    play.run()
    assert (tokens.calls, sent(play)) == (1, bearer(*[TOKENS[0]] * 3))


def test_a_rejected_key_is_fetched_again_once(caplog: pytest.LogCaptureFixture) -> None:
    tokens = Tokens()
    play = played(tokens, refusal(401), reply())
    with caplog.at_level(logging.WARNING, LOGGER):
        assert play.run()["status"] == "success"
    assert (tokens.calls, sent(play), play.waits) == (2, bearer(*TOKENS[:2]), [])
    assert caplog.messages[0].endswith("fetching a new key")


def test_a_key_that_is_rejected_twice_is_an_error() -> None:
    tokens = Tokens()
    play = played(tokens, refusal(401))
    error = play.fails(LLMAuthenticationError)
    assert (tokens.calls, sent(play), error.attempts) == (2, bearer(*TOKENS[:2]), 2)


def test_a_key_that_is_text_is_not_tried_twice() -> None:
    play = played("sk-text", refusal(401))
    play.fails(LLMAuthenticationError)
    assert len(play.requests) == 1


def test_the_refresh_takes_nothing_from_the_retries() -> None:
    play = played(Tokens(), refusal(401), refusal(500), refusal(500), reply(), max_retries=2)
    assert play.run()["status"] == "success"
    assert sent(play) == bearer(TOKENS[0], *[TOKENS[1]] * 3)


def test_a_stream_is_refreshed_too() -> None:
    tokens = Tokens()
    answer = [b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n']
    play = played(tokens, refusal(401), answer, play=Streaming, stream=True)
    assert isinstance(play, Streaming)
    kinds = [type(delta).__name__ for delta in play.deltas()]
    assert kinds == ["TextDelta", "UsageDelta", "Finish"]
    assert (tokens.calls, sent(play)) == (2, bearer(*TOKENS[:2]))


class Refused(Exception):
    """Raised by a callable."""


def test_a_callable_that_fails_is_an_error_with_its_cause() -> None:
    cause = Refused("the library's own words")
    error = played(Tokens(cause), reply()).fails(LLMAuthenticationError)
    assert str(error) == "there is no key for openai-compatible: api_key raised Refused"
    assert (error.__cause__, error.attempts, error.provider) == (cause, 0, "openai-compatible")


def test_a_token_that_was_never_returned_is_not_in_the_cause() -> None:
    cause = Refused("the token sk-unknown-0123456789 has expired")
    cause.__cause__ = KeyError("sk-unknown-0123456789")
    error = played(Tokens(cause), reply()).fails(LLMAuthenticationError)
    assert error.__cause__ is cause
    assert str(cause) == "the token *** has expired"
    assert str(cause.__cause__) == "'***'"


def test_after_a_callable_failed_the_next_model_is_tried() -> None:
    keys = {"mistral": Tokens(Refused()), "groq": Tokens()}
    target = Target(None, None, keys)
    play = Play(reply(), models=("mistral/a", "groq/b"), target=target)
    assert play.run()["model"] == "b"
    assert sent(play) == bearer(TOKENS[0])


def test_a_callable_that_fails_when_a_key_was_rejected() -> None:
    cause = Refused(f"{TOKENS[0]} has expired")
    error = played(Tokens(TOKENS[0], cause), refusal(401)).fails(LLMAuthenticationError)
    assert error.attempts == 1
    assert error.__cause__ is cause
    assert str(cause) == "*** has expired"


@pytest.mark.parametrize("value", [None, 7, b"token", "", "a b", "line\n", ["token"]])
def test_a_callable_that_returns_no_key(value: Any) -> None:
    error = played(Tokens(value), reply()).fails(LLMRequestError)
    assert str(error).startswith("api_key must ")
    assert error.attempts == 0
    if value:
        assert str(value) not in str(error)


def test_the_name_in_a_message_is_that_of_the_argument() -> None:
    play = Play(reply(), models=("groq/m",), target=Target(None, None, {"groq": Tokens(Refused())}))
    assert "keys['groq'] raised Refused" in str(play.fails(LLMAuthenticationError))


def test_tokens_are_redacted_in_errors() -> None:
    body = {"error": {"message": f"the token {TOKENS[0]} is not valid", "code": "bad"}}
    error = played(Tokens(), reply(400, body)).fails(LLMRequestError)
    assert TOKENS[0] not in str(error)
    assert TOKENS[0] not in (error.body or "")
    assert "***" in str(error)


def test_aws_credentials_from_a_callable_sign_each_request() -> None:
    keys = Tokens(
        AWSCredentials("AKIDONE", "secret-number-1", "session-number-1", "us-east-1"),
        AWSCredentials("AKIDTWO", "secret-number-2", region="us-east-1"),
    )
    expired = reply(
        403, {"message": "session-number-1 has expired"}, x_amzn_errortype="ExpiredTokenException"
    )
    body = {"output": {"message": {"content": [{"text": "Hi"}]}}, "stopReason": "end_turn"}
    target = Target(BASE, keys)
    play = Play(expired, refusal(500), reply(body=body), models=("bedrock/m",), target=target)
    assert play.run()["data"]["content"] == "Hi"
    used = ["AKIDONE", "AKIDTWO", "AKIDTWO"]
    for request, name in zip(play.requests, used, strict=True):
        assert f"Credential={name}/" in request.headers["Authorization"]
    assert "X-Amz-Security-Token" not in play.requests[1].headers


def test_a_region_that_is_not_known_is_an_error_of_the_call() -> None:
    target = Target(BASE, Tokens(AWSCredentials("AKID", "secret")))
    play = Play(reply(), models=("bedrock/m",), target=target)
    assert "pass region to AWSCredentials" in str(play.fails(LLMRequestError))


# The machine.


def test_the_machine_fetches_once_and_refreshes_once() -> None:
    route = Target(BASE, Tokens()).route("m")
    assert route.key_provider is not None
    fetcher = KeyFetcher(route, route.key_provider)
    rejected = LLMAuthenticationError("no")
    assert not fetcher.refresh(rejected)  # nothing was fetched
    for again in (True, False):
        step = fetcher.next_step(5.0)
        assert isinstance(step, FetchKey)
        step.perform()
        assert fetcher.next_step(5.0) is None
        assert fetcher.next_step(5.0) is None
        assert not fetcher.refresh(LLMRequestError("no"))
        assert fetcher.refresh(rejected) is again
    assert fetcher.route.key == TOKENS[1]
    assert route.key is None


def test_an_async_callable_is_awaited_up_to_the_deadline() -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def go() -> FetchKey:
        action = FetchKey(never, "api_key", 0.01)
        await action.perform_async()
        return action

    action = asyncio.run(go())
    assert isinstance(action.error, TimeoutError)


def test_a_cancelled_call_is_cancelled() -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def go() -> None:
        action = FetchKey(never, "api_key", 60)
        task = asyncio.create_task(action.perform_async())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert action.error is None

    asyncio.run(go())


# Both clients, with a server.

ANSWER = {
    "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}


def accepts(token: str) -> Callable[[Received], Replied]:
    """Return a server's rule: only this token is accepted."""

    def answer(received: Received) -> Replied:
        if received.headers.get("authorization") == f"Bearer {token}":
            return Replied(body=json.dumps(ANSWER).encode())
        return Replied(401, body=json.dumps({"error": {"message": "bad token"}}).encode())

    return answer


def coroutine_function() -> Callable[[], Awaitable[str]]:
    tokens = Tokens()

    async def fetch() -> str:
        await asyncio.sleep(0)
        return str(tokens())

    return fetch


@pytest.mark.parametrize("source", [Tokens, coroutine_function])
def test_the_async_client_takes_both(source: Callable[[], Any]) -> None:
    async def go() -> tuple[str | None, list[str]]:
        async with provider() as server:
            server.reply = accepts(TOKENS[1])
            async with AsyncLLMClient(source(), server.url) as client:
                response = await client.generate(MESSAGES, "m")
            headers = [received.headers["authorization"] for received in server.received]
            return response["data"]["content"], headers

    assert asyncio.run(go()) == ("Hi", bearer(*TOKENS[:2]))


def test_the_deadline_applies_to_an_async_callable() -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def go() -> None:
        async with AsyncLLMClient(never, "http://127.0.0.1:9", deadline=0.02) as client:
            await client.generate(MESSAGES, "m")

    with pytest.raises(LLMTimeoutError, match=r"within the deadline of 0\.02 s"):
        asyncio.run(go())


def test_the_sync_client_takes_a_sync_callable() -> None:
    async def go() -> list[str]:
        async with provider() as server:
            server.reply = accepts(TOKENS[1])

            def ask() -> None:
                with LLMClient(Tokens(), server.url) as client:
                    assert client.generate(MESSAGES, "m")["data"]["content"] == "Hi"

            await asyncio.to_thread(ask)
            return [received.headers["authorization"] for received in server.received]

    assert asyncio.run(go()) == bearer(*TOKENS[:2])


def test_an_async_callable_in_the_sync_client_is_an_error_that_names_the_other() -> None:
    async def fetch() -> str:
        return "token"

    with LLMClient(fetch, "http://127.0.0.1:9") as client, pytest.raises(LLMError) as caught:
        client.generate(MESSAGES, "m")
    assert type(caught.value) is LLMRequestError
    assert str(caught.value) == "api_key is an async callable; use it with AsyncLLMClient"


def test_a_follow_up_of_a_call_uses_the_key_of_the_call() -> None:
    tokens = Tokens()
    play = played(tokens, reply())
    play.run()
    plan = play.attempts.plan
    after = plan.corrected("x", "is not JSON")
    assert after.key_step(1.0) is None
    assert after.headers()["Authorization"] == bearer(TOKENS[0])[0]
    assert tokens.calls == 1
    assert after.refresh_key(LLMAuthenticationError("expired"))
    step = after.key_step(1.0)
    assert step is not None
    step.perform()
    assert after.key_step(1.0) is None
    assert after.headers()["Authorization"] == bearer(TOKENS[1])[0]
