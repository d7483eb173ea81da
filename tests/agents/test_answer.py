"""The answer of a model in a durable agent, killed at every packet: the reader gets one answer."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from coreason_client import ServiceRequest
from coreason_client.agents.llm import llm_agent
from coreason_client.llm import AsyncLLMClient
from coreason_client.server import AgentStream
from coreason_client.server.engine import _appender
from coreason_client.server.engine._conversation import conversation_of, dump_turn, make_turn
from coreason_manifest.definitions.message import ChatMessage
from tests.cli.models import KEY, chunk, spoken, streamed
from tests.llm.server import Provider, Received, Replied, provider
from tests.server.durable.simulated import MortalLog
from tests.server.peer import envelope

from .durable import Agent, before_rewind, events, request, rewinds, run, shown, text, undisturbed

WORDS = ["The", " sky", " is", "\n\n", "blue", ", and", " the sea", "."]
WHOLE = "".join(WORDS)


@pytest.fixture(autouse=True)
def _one_packet_in_each_append(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_appender, "FLUSH_BYTES", 1)


@dataclass
class Model:
    """A model on loopback. `continues` is the way in which its provider continues an answer.

    If `varies`, each of its answers differs from the ones before.
    """

    continues: str | None = None
    varies: bool = False
    reasons: bool = False
    rejects: bool = False
    sent: list[dict[str, Any]] = field(default_factory=list)

    def reply(self, received: Received) -> Replied:
        body = received.json
        self.sent.append(body)
        last = body["messages"][-1]
        if last["role"] == "assistant":
            return self._continuation(last, body)
        words = [*WORDS, f" ({len(self.sent)})"] if self.varies else WORDS
        if self.varies:
            words = [f"{len(self.sent)}: ", *words]
        chunks = spoken(*words)
        if self.reasons:
            thoughts = [chunk(reasoning_content=f"Hm {len(self.sent)}.\n\n") for _ in range(2)]
            chunks = [*thoughts, *chunks]
        return streamed(chunks)

    def _continuation(self, last: dict[str, Any], body: dict[str, Any]) -> Replied:
        begun = last["content"]
        assert begun == begun.rstrip()
        assert WHOLE.startswith(begun)
        if self.rejects:
            error = {"error": {"message": "no", "type": "invalid_request_error"}}
            return Replied(status=400, body=json.dumps(error).encode())
        if self.continues == "mistral":
            assert last["prefix"] is True
            return streamed(spoken(begun[:3], begun[3:], WHOLE[len(begun) :]))
        assert body["continue_final_message"] is True
        return streamed(spoken(*re.findall(r"\s+|\S+", WHOLE[len(begun) :])))


@asynccontextmanager
async def served(model: Model, **options: Any) -> AsyncIterator[tuple[Agent, Provider]]:
    async with provider() as server:
        server.reply = model.reply
        client = AsyncLLMClient(
            KEY, server.url, max_retries=0, timeout=10, provider=model.continues
        )
        async with client:
            yield llm_agent("m", client=client, **options), server


@pytest.mark.parametrize("continues", ["mistral", "vllm"])
def test_an_answer_is_continued_after_every_death(continues: str) -> None:
    async def scene() -> None:
        model = Model(continues)
        async with served(model) as (agent, _):
            expected, appends = await undisturbed(agent, request())
            assert text(expected) == WHOLE
            continued = 0
            for at in range(appends):
                for stored in (False, True):
                    model.sent.clear()
                    got = await run(agent, request(), [(at, stored)])
                    assert (got.outcome, text(got), rewinds(got)) == ("complete", WHOLE, 0)
                    [usage] = events(got, "USAGE")
                    asked = [body["messages"][-1]["role"] for body in model.sent]
                    assert asked in (["user"], ["user", "user"], ["user", "assistant"])
                    assert usage.get("estimated", False) is (asked[-1] == "assistant")
                    continued += asked[-1] == "assistant"
            assert continued >= len(WORDS) - 1

    asyncio.run(scene())


def test_an_answer_is_continued_after_several_deaths() -> None:
    async def scene() -> None:
        model = Model("vllm")
        async with served(model, max_tokens=100) as (agent, _):
            got = await run(agent, request(), [(3, True), (3, True), (4, True)])
        assert (got.outcome, text(got), got.restarts) == ("complete", WHOLE, 3)
        begun = [body["messages"][-1]["content"] for body in model.sent]
        assert len(begun) == 4
        assert begun[1:] == ["The sky", "The sky is", "The sky is\n\nblue, and"]
        limits = [body["max_tokens"] for body in model.sent]
        assert limits[0] == 100
        assert limits == sorted(limits, reverse=True)
        assert limits[-1] < 100

    asyncio.run(scene())


def test_the_usage_is_that_of_all_requests() -> None:
    async def scene() -> None:
        async with served(Model("vllm")) as (agent, _):
            expected, _ = await undisturbed(agent, request())
            once = await run(agent, request(), [(4, True)])
            twice = await run(agent, request(), [(4, True), (2, True)])
        usages = [events(answer, "USAGE")[0] for answer in (expected, once, twice)]
        prompts = [usage["prompt_tokens"] for usage in usages]
        assert prompts[0] == 19
        assert prompts[0] < prompts[1] < prompts[2]
        for usage in usages:
            both = usage["prompt_tokens"] + usage["completion_tokens"]
            assert usage["total_tokens"] == both
        assert [usage.get("estimated") for usage in usages] == [None, True, True]

    asyncio.run(scene())


def test_a_model_that_repeats_itself_goes_on_without_rewinds() -> None:
    async def scene() -> None:
        async with served(Model()) as (agent, _):
            expected, appends = await undisturbed(agent, request())
            for at in range(appends):
                got = await run(agent, request(), [(at, at % 2 == 0)])
                assert shown(got) == shown(expected)

    asyncio.run(scene())


def test_another_answer_is_rewound_or_ends_the_stream() -> None:
    async def scene() -> None:
        lost = 0
        model = Model(varies=True)
        async with served(model) as (agent, _):
            _, appends = await undisturbed(agent, request())
            for at in range(appends):
                model.sent.clear()
                got = await run(agent, request(rewinds=True), [(at, at % 2 == 0)])
                last = f"{len(model.sent)}: {WHOLE} ({len(model.sent)})"
                assert (got.outcome, text(got)) == ("complete", last)
                assert len(events(got, "USAGE")) == 1
                model.sent.clear()
                other = await run(agent, request(), [(at, at % 2 == 0)])
                last = f"{len(model.sent)}: {WHOLE} ({len(model.sent)})"
                if rewinds(got):  # a client that does not understand them has what came before
                    lost += 1
                    assert (other.outcome, text(other)) == ("producer_lost", before_rewind(got))
                    assert f"1: {WHOLE} (1)".startswith(text(other))
                else:
                    assert (other.outcome, text(other)) == ("complete", last)
        assert lost == len(WORDS) + 2

    asyncio.run(scene())


@pytest.mark.parametrize("thoughts", [True, False])
def test_an_answer_with_reasoning_is_not_continued(*, thoughts: bool) -> None:
    async def scene() -> None:
        model = Model("vllm", reasons=True)
        async with served(model, thoughts=thoughts) as (agent, _):
            _, appends = await undisturbed(agent, request())
            for at in range(appends):
                model.sent.clear()
                got = await run(agent, request(rewinds=True), [(at, at % 2 == 0)])
                assert (got.outcome, text(got)) == ("complete", WHOLE)
                assert {body["messages"][-1]["role"] for body in model.sent} == {"user"}
                said = [thought["content"] for thought in events(got, "THOUGHT_TRACE")]
                # Those of the last run, and no others.
                assert said == ([f"Hm {len(model.sent)}."] * 2 if thoughts else [])

    asyncio.run(scene())


def test_a_provider_that_rejects_the_beginning_is_asked_again() -> None:
    async def scene() -> None:
        model = Model("vllm", rejects=True)
        async with served(model) as (agent, _):
            got = await run(agent, request(), [(4, True)])
        roles = [body["messages"][-1]["role"] for body in model.sent]
        assert roles == ["user", "assistant", "user"]
        assert (got.outcome, text(got)) == ("complete", WHOLE)
        [usage] = events(got, "USAGE")
        assert "estimated" not in usage

    asyncio.run(scene())


def test_only_fallbacks_that_continue_are_asked() -> None:
    async def scene() -> None:
        async with provider() as server:
            model = Model("vllm")

            def reply(received: Received) -> Replied:
                if model.sent and received.json["model"] == "m":
                    model.sent.append(received.json)
                    return Replied(status=404, body=b"{}")
                return model.reply(received)

            server.reply = reply
            async with AsyncLLMClient(KEY, server.url, max_retries=0) as client:
                fallbacks = ["unknown", "vllm/other"]
                agent = llm_agent("vllm/m", client=client, fallbacks=fallbacks)
                got = await run(agent, request(), [(4, True)])
        assert (got.outcome, text(got)) == ("complete", WHOLE)
        assert [body["model"] for body in model.sent] == ["m", "m", "other"]

    asyncio.run(scene())


def test_a_failure_of_the_model_is_an_outcome() -> None:
    async def scene() -> None:
        asked = 0

        def reply(_: Received) -> Replied:
            nonlocal asked
            asked += 1
            return streamed([chunk(content="Hel"), chunk(content="lo")], cut=True)

        async with provider() as server:
            server.reply = reply
            async with AsyncLLMClient(KEY, server.url, max_retries=0) as client:
                agent = llm_agent("m", client=client)
                expected, appends = await undisturbed(agent, request())
                assert expected.outcome == "model_connection"
                for at in range(appends):
                    asked = 0
                    got = await run(agent, request(), [(at, at % 2 == 0)])
                    assert (got.outcome, text(got)) == ("model_connection", "Hello")
                    assert got.packets[-1][1]["details"] == expected.packets[-1][1]["details"]
                    assert asked <= 2
                assert asked == 1  # it died at the last packet, after the outcome was stored

    asyncio.run(scene())


def test_a_restarted_agent_sends_the_same_conversation() -> None:
    async def scene() -> None:
        model = Model("vllm")
        log = MortalLog([(4, True)])
        asked = request()
        turn = dump_turn(make_turn([ChatMessage.user("Hello")], "Hi!"))
        later = dump_turn(make_turn([ChatMessage.user("Later")], "Yes?"))
        talk = conversation_of("p", asked)
        await log.add_turn(talk, asked.request_id, turn, 1)

        async with served(model) as (agent, _):

            async def twice(question: ServiceRequest, stream: AgentStream) -> None:
                if stream.attempt > 1:
                    await log.add_turn(talk, uuid4(), later, 1)
                await agent(question, stream)

            got = await run(twice, asked, [(4, True)], log)
        assert text(got) == WHOLE
        sent = [[message["content"] for message in body["messages"]] for body in model.sent]
        assert sent[0] == ["Hello", "Hi!", "What is the sky?"]
        assert sent[1][:-1] == sent[0]

    asyncio.run(scene())


def test_a_request_that_cannot_be_sent_fails_again() -> None:
    async def scene() -> None:
        body = envelope("x")
        body["payload"]["messages"] = [
            {"role": "user", "parts": [{"type": "blob", "content": "AA==", "mime_type": "x/y"}]}
        ]
        asked = ServiceRequest.model_validate(body)
        async with served(Model()) as (agent, _):
            _, appends = await undisturbed(agent, asked)
            for at in range(appends):
                got = await run(agent, asked, [(at, False)])
                assert got.outcome == "unsupported_content"

    asyncio.run(scene())
