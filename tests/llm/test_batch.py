"""Batches through both clients: submit, follow, read the results, also in another process."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from coreason_client.llm import (
    AsyncBatch,
    AsyncLLMClient,
    Batch,
    BatchResult,
    Budget,
    LLMClient,
    LLMConnectionError,
    LLMError,
    LLMOverloadedError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
    LLMTimeoutError,
)
from coreason_client.llm._answer import Malformed, Tokens
from coreason_client.llm._batch import ResultsMachine
from coreason_client.llm._cost import batch_cost, cost
from coreason_client.llm.providers.batches import BATCHES
from coreason_client.testing import (
    ModelFailure,
    ModelToolCall,
    ModelTurn,
    fake_model,
    virtual_clock,
)
from tests.llm.server import Provider, Received, Replied, ServerInThread

MODELS = {
    "openai": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
}
TURNS: list[str | ModelTurn | ModelFailure] = [
    "one",
    ModelFailure(400, "the second is wrong"),
    ModelTurn("", [ModelToolCall("look", {"at": 3})]),
    '{"n": 4}',
]


class Number(BaseModel):
    n: int


def asked(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


REQUESTS = [asked("1", id="a"), asked("2", id="b"), asked("3", max_tokens=9), asked("4", id="d")]


def by_id(results: list[BatchResult]) -> dict[str, BatchResult]:
    found = {result.id: result for result in results}
    assert len(found) == len(results)
    return found


def check_results(results: list[BatchResult], model: str) -> None:
    found = by_id(results)
    assert found.keys() == {"a", "b", "request-2", "d"}
    first, failed, calls = found["a"].response, found["b"].error, found["request-2"].response
    assert first is not None
    assert calls is not None
    assert first["data"]["content"] == "one"
    assert first["model"] == model
    assert calls["data"]["tool_calls"][0]["arguments"] == {"at": 3}
    assert isinstance(failed, LLMRequestError)
    assert failed.status == 400
    assert "the second is wrong" in str(failed)
    assert found["b"].response is None


@pytest.mark.parametrize("provider", MODELS)
def test_a_batch_is_submitted_followed_and_read_twice(provider: str) -> None:
    model = MODELS[provider]
    with virtual_clock() as clock, fake_model(TURNS, batch_polls=3) as fake:
        with LLMClient(**fake.options(provider)) as client:
            batch = client.batch(REQUESTS, model)
            assert batch.id.startswith(f"{model}#")
            assert batch.status() == {"state": "running", "total": 4, "succeeded": 0, "failed": 0}
            with pytest.raises(LLMRequestError, match="is still running: call wait"):
                list(batch.results())
            assert batch.wait()["state"] == "completed"
            assert 5 <= sum(clock.waits) <= 6.25  # one wait, with a quarter of jitter
            first, again = list(batch.results()), list(batch.results())
        assert [result.id for result in first] == [result.id for result in again]
        check_results(first, model)
        assert len(fake.requests) == len(REQUESTS)  # nothing was submitted twice
        assert fake.requests[2].json != fake.requests[0].json
        single = client_cost(fake.options(provider), model)
    paid = by_id(first)["a"].response
    assert paid is not None
    assert paid["usage"]["cost_estimate"] == pytest.approx(single / 2)


def client_cost(options: dict[str, Any], model: str) -> float:
    with fake_model("one") as fake:
        options = {**options, "base_url": fake.url}
        with LLMClient(**options) as client:
            response = client.generate(REQUESTS[0]["messages"], model)
    price = response["usage"]["cost_estimate"]
    assert price is not None
    return price


@pytest.mark.parametrize("provider", MODELS)
def test_the_async_client_does_the_same_and_parses_the_format(provider: str) -> None:
    async def go() -> None:
        with fake_model(['{"n": 4}', '{"n": "x"}'], batch_polls=1) as fake, virtual_clock():
            async with AsyncLLMClient(**fake.options(provider)) as client:
                requests = [asked("q", response_format=Number), asked("r", response_format=Number)]
                batch = await client.batch(requests, MODELS[provider])
                assert (await AsyncBatch(client, batch.id).wait())["succeeded"] == 2
                found = by_id([one async for one in batch.results(Number)])
            assert found["request-0"].response is not None
            assert found["request-0"].response["data"]["parsed"] == Number(n=4)
            error = found["request-1"].error
            assert isinstance(error, LLMResponseError)
            assert error.partial is not None

    asyncio.run(asyncio.wait_for(go(), 30))


def test_a_batch_of_the_responses_api_is_read_in_its_format_and_reported_to_hooks() -> None:
    paths: list[str] = []
    with fake_model("x") as fake:
        options: dict[str, Any] = {**fake.options(), "wire": "responses"}
        with LLMClient(**options, on_request=lambda info: paths.append(info.url)) as client:
            [result] = client.batch([asked("q")]).results()
        assert fake.requests[0].wire == "responses"
    assert result.response is not None
    assert result.response["data"]["content"] == "x"
    assert [path.rpartition("/")[2] for path in paths[:2]] == ["files", "batches"]
    assert len(paths) == 4  # and the status and the output file


@pytest.mark.parametrize("provider", MODELS)
def test_a_batch_can_be_cancelled(provider: str) -> None:
    with fake_model("x", batch_polls=9) as fake, LLMClient(**fake.options(provider)) as client:
        batch = client.batch([asked("q")])
        assert batch.cancel()["state"] == "cancelled"
        errors = [result.error for result in batch.results()]
    # Gemini has no results of a cancelled batch.
    assert all(type(error) is LLMError and error.code == "cancelled" for error in errors)
    assert len(errors) == (0 if provider == "gemini" else 1)


SUBMIT = """
import os, sys
from coreason_client.llm import LLMClient
client = LLMClient("key", sys.argv[1], provider=sys.argv[2])
batch = client.batch([{"messages": [{"role": "user", "content": "q"}], "id": "a"}], sys.argv[3])
print(batch.id, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("provider", MODELS)
def test_another_process_reads_the_results_after_a_kill(provider: str) -> None:
    with fake_model("answer", batch_polls=1) as fake, virtual_clock():
        killed = subprocess.run(
            [sys.executable, "-c", SUBMIT, fake.url, provider, MODELS[provider]],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert killed.returncode == -9, killed.stderr
        with LLMClient(**fake.options(provider)) as client:
            batch = Batch(client, killed.stdout.strip())
            assert batch.wait()["succeeded"] == 1
            [result] = batch.results()
        assert result.response is not None
        assert result.response["data"]["content"] == "answer"
        assert len(fake.requests) == 1


# A submit that may have arrived.


def told(value: Any, status: int = 200) -> Replied:
    return Replied(status, body=json.dumps(value).encode())


def client_of(server: Provider, provider: str = "anthropic", **options: Any) -> LLMClient:
    return LLMClient("k", server.url, provider=provider, first_wait=0.001, **options)


CREATED = {"id": "msgbatch_1", "processing_status": "in_progress"}


@pytest.mark.parametrize(
    ("failure", "sent", "uncertain"),
    [
        (told({"error": {"type": "api_error"}}, 500), 1, True),
        (told({}, 502), 1, True),
        (told({}, 408), 1, True),
        (Replied(200, body=b"not json"), 1, True),
        (told({"error": {"type": "invalid_request_error"}}, 400), 1, False),
        (told({}, 429), 2, False),
        (told({}, 503), 2, False),
        (told({"error": {"type": "overloaded_error"}}, 529), 2, False),
    ],
)
def test_a_submit_that_may_have_arrived_is_not_repeated(
    failure: Replied, sent: int, uncertain: bool
) -> None:
    replies = [failure, told(CREATED)]
    with ServerInThread() as server, client_of(server) as client:
        server.reply = lambda _: replies.pop(0)
        if sent == 2:
            assert client.batch([asked("q")]).id == "gpt-4-turbo#msgbatch_1"
        else:
            with pytest.raises(LLMError) as raised:
                client.batch([asked("q")])
            assert ("may have been created" in str(raised.value)) is uncertain
        assert len(server.received) == sent


def test_a_connection_that_breaks_leaves_it_open_and_one_that_was_never_made_does_not() -> None:
    with ServerInThread() as server, client_of(server, max_retries=1) as client:
        server.reply = lambda _: Replied(200, chunks=[b"{"], cut=True)
        with pytest.raises(LLMConnectionError, match="may have been created"):
            client.batch([asked("q")])
        assert len(server.received) == 1
        url = server.url
    with LLMClient("k", url, provider="anthropic", first_wait=0.001, max_retries=1) as client:
        with pytest.raises(LLMConnectionError, match="tried 2 times") as raised:
            client.batch([asked("q")])
        assert "may have been" not in str(raised.value)


# Results.


def openai_batch(**more: Any) -> dict[str, Any]:
    return {"id": "batch_1", "status": "completed", "output_file_id": "file-1", **more}


def line(id_: str, content: str) -> bytes:
    message = {"message": {"content": content}, "finish_reason": "stop"}
    response = {"status_code": 200, "body": {"choices": [message]}}
    return json.dumps({"custom_id": id_, "response": response}).encode() + b"\n"


def test_a_file_that_breaks_off_is_read_again_and_no_result_is_repeated() -> None:
    whole = b"".join(line(f"r{number}", "x") for number in range(5))
    cuts = [len(whole) // 5 + 7, len(whole) * 3 // 5 + 7]

    def reply(request: Received) -> Replied:
        if not request.path.endswith("/content"):
            return told(openai_batch())
        if cuts:
            return Replied(200, chunks=[whole[: cuts.pop(0)]], cut=True)
        return Replied(200, body=whole)

    with ServerInThread() as server, client_of(server, "openai", max_retries=1) as client:
        server.reply = reply
        found = [result.id for result in Batch(client, "gpt-4o#batch_1").results()]
    assert found == [f"r{number}" for number in range(5)]
    assert not cuts  # one retry is allowed, but there was progress between the failures


@pytest.mark.parametrize(
    ("batch", "content", "kind", "reason"),
    [
        (openai_batch(), Replied(404, body=b"{}"), LLMError, "404"),
        (openai_batch(), Replied(200, body=b'{"a":\n'), LLMResponseError, "line 1 .* is not JSON"),
        (openai_batch(endpoint="/v1/responses"), None, LLMRequestError, 'with wire="responses"'),
        (
            {
                "id": "batch_1",
                "status": "failed",
                "errors": {"data": [{"message": "line 3 is\nwrong"}]},
            },
            None,
            LLMRequestError,
            "has no results: line 3 is wrong",
        ),
        ({"id": "../etc", "status": "completed"}, None, LLMResponseError, "no usable id"),
        (openai_batch(output_file_id="a/b"), None, LLMResponseError, "no usable id"),
    ],
)
def test_results_that_cannot_be_read(
    batch: Any, content: Replied | None, kind: type[LLMError], reason: str
) -> None:
    with ServerInThread() as server, client_of(server, "openai", max_retries=0) as client:
        server.reply = lambda request: (
            content if content and request.path.endswith("/content") else told(batch)
        )
        with pytest.raises(kind, match=reason):
            list(Batch(client, "gpt-4o#batch_1").results())


ITEMS: list[tuple[str, Any, type[LLMError], str | None]] = [
    ("openai", {"error": {"code": "batch_expired"}}, LLMTimeoutError, "expired"),
    ("openai", {"error": {"code": "odd", "message": "m"}}, LLMRequestError, "odd"),
    (
        "openai",
        {"response": {"status_code": 500, "body": {"error": {"code": "server_error"}}}},
        LLMServerError,
        "server_error",
    ),
    ("anthropic", {"result": {"type": "expired"}}, LLMTimeoutError, "expired"),
    ("anthropic", {"result": {"type": "canceled"}}, LLMError, "cancelled"),
    (
        "anthropic",
        {
            "result": {
                "type": "errored",
                "error": {"type": "error", "error": {"type": "overloaded_error"}},
            }
        },
        LLMOverloadedError,
        "overloaded_error",
    ),
    ("gemini", {"error": {"code": 1}}, LLMError, "cancelled"),
    ("gemini", {"error": {"code": 14, "message": "m"}}, LLMOverloadedError, "UNAVAILABLE"),
    ("gemini", {"error": {"code": 3, "message": "m"}}, LLMRequestError, "INVALID_ARGUMENT"),
    ("gemini", {"response": {}}, LLMResponseError, None),
]


@pytest.mark.parametrize(("provider", "item", "kind", "code"), ITEMS)
def test_each_result_has_its_own_error(
    provider: str, item: Any, kind: type[LLMError], code: str | None
) -> None:
    batch: dict[str, Any] = {
        "openai": openai_batch(),
        "anthropic": {"id": "batch_1", "processing_status": "ended"},
        "gemini": {
            "name": "batches/batch_1",
            "metadata": {"state": "BATCH_STATE_SUCCEEDED"},
            "response": {"inlinedResponses": {"inlinedResponses": [item, item]}},
        },
    }[provider]
    lines = Replied(200, body=json.dumps(item).encode() + b"\n" + json.dumps(item).encode())
    with ServerInThread() as server, client_of(server, provider) as client:
        server.reply = lambda request: (
            lines if request.path.endswith(("/content", "/results")) else told(batch)
        )
        id_ = "batches/batch_1" if provider == "gemini" else "batch_1"
        results = list(Batch(client, f"{MODELS[provider]}#{id_}").results())
    assert [type(result.error) for result in results] == [kind, kind]  # the last line has no end
    assert results[0].error is not None
    assert results[0].error.code == code


def test_a_batch_of_gemini_that_failed_says_why() -> None:
    failed = {"name": "batches/b", "metadata": {}, "error": {"message": "no quota"}}
    with ServerInThread() as server, client_of(server, "gemini") as client:
        server.reply = lambda _: told(failed)
        batch = Batch(client, "gemini-2.5-flash#batches/b")
        assert batch.status()["state"] == "failed"
        with pytest.raises(LLMRequestError, match="no quota"):
            list(batch.results())


def test_waiting_ends() -> None:
    with (
        fake_model("x", batch_polls=10_000) as fake,
        virtual_clock() as clock,
        LLMClient(**fake.options()) as client,
    ):
        batch = client.batch([asked("q")])
        with pytest.raises(LLMTimeoutError, match="it goes on: wait again"):
            batch.wait(timeout=600)
        waits = [wait for wait in clock.waits if wait > 0]
        assert sum(waits) == pytest.approx(600, abs=30)
        assert len(waits) < 20  # at most a minute apart, and a quarter more
        with pytest.raises(LLMRequestError, match="timeout must be"):
            batch.wait(timeout=0)


# Arguments.


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ([], "requests must be a list of at least one request"),
        (["q"], r"requests\[0\] must be"),
        ([asked("q"), asked("q", id="ä")], r"requests\[1\].id must be 1 to 64 letters"),
        ([asked("q", id="a"), asked("q", id="a")], r"requests\[1\].id must be unique, got 'a'"),
        ([asked("q"), {"messages": "q" * 3, "tools": 7}], r"requests\[1\]: tools"),
        ([asked("q", fallbacks=["gpt-4o"])], "for single calls"),
        ([asked("q", resume=True)], "for single calls"),
    ],
)
def test_wrong_requests_are_not_sent(requests: Any, reason: str) -> None:
    with fake_model([], exhausted="allow") as fake, LLMClient(**fake.options()) as client:
        with pytest.raises(LLMRequestError, match=reason):
            client.batch(requests)
        with pytest.raises(TypeError, match="no option 'stream'"):
            client.batch([asked("q", stream=True)])
        assert not fake.requests


def test_other_providers_and_budgets_are_refused() -> None:
    with LLMClient("k", provider="groq", base_url="http://127.0.0.1:9") as client:
        with pytest.raises(
            LLMRequestError, match=r"groq has no batches .* openai, anthropic, gemini"
        ):
            client.batch([asked("q")])
        with pytest.raises(LLMRequestError, match="groq has no batches"):
            Batch(client, "m#batch_1")
    with (
        LLMClient("k", budgets=Budget(1.0)) as client,
        pytest.raises(LLMRequestError, match="budgets do not cover batches"),
    ):
        client.batch([asked("q")], "gpt-4o")


@given(st.one_of(st.none(), st.integers(), st.text(), st.text().map("gpt-4o#".__add__)))
def test_only_the_id_of_a_batch_is_accepted(saved: Any) -> None:
    with LLMClient("k") as client:
        try:
            batch = Batch(client, saved)
        except LLMRequestError:
            return
        assert batch.id == saved
        assert not set("/?%\\ ") & set(saved.partition("#")[2].removeprefix("batches/"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("id", "name", "status", "metadata", "state", "request_counts", "batchStats"),
                    *("custom_id", "result", "response", "error", "type", "code", "body", "errors"),
                    *(
                        "status_code",
                        "data",
                        "message",
                        "output_file_id",
                        "inlinedResponses",
                        "key",
                    ),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(sorted(BATCHES)), st.dictionaries(st.sampled_from(["id", "name"]), JSON), JSON
)
def test_no_reply_breaks_the_readers(provider: str, reply: Any, line: Any) -> None:
    format_ = BATCHES[provider]
    for value in (reply, line):
        if not isinstance(value, dict):
            continue
        assert isinstance(format_.result(value).id, str)
        try:
            found = format_.read("http://base", value)
        except Malformed:
            continue
        assert found.status["total"] >= 0


# Prices.


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o"),  # the table has prices of batches for the first two
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-1"),
        ("openai", "gpt-3.5-turbo-0613"),
    ],
)
def test_a_batch_costs_half(provider: str, model: str) -> None:
    tokens = Tokens(1_000_000, 1_000_000)
    single = cost(provider, model, tokens)
    assert single
    assert batch_cost(provider, model, tokens) == pytest.approx(single / 2)
    assert batch_cost(provider, "no such model", tokens) is None


def test_the_price_of_batches_in_the_table_takes_precedence() -> None:
    from genai_prices import Usage, calc_price

    usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    asked: Any = {"provider_id": "openai", "price_context": {"processing": "batch"}}
    expected = calc_price(usage, "gpt-5.5-pro", **asked).total_price
    found = batch_cost("openai", "gpt-5.5-pro", Tokens(1_000_000, 1_000_000))
    assert found == pytest.approx(float(expected))  # less than half


def test_results_are_read_line_by_line() -> None:
    taken: list[Any] = []

    def read(value: Any) -> Any:
        taken.append(value)
        return value

    attempts: Any = _NoAttempts()
    lines: Any = ResultsMachine(attempts, read).receive(
        line("a", "x") + line("b", "y") + line("c", "z")[:9]
    )
    assert next(lines)["custom_id"] == "a"
    assert len(taken) == 1  # the second line waits until it is asked for
    assert [value["custom_id"] for value in lines] == ["b"]


class _NoAttempts:
    def restart_deadline(self, *, forget_failures: bool) -> None: ...
