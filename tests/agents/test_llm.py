"""A model as an agent: CAP client, agent, AI client and provider, all real and on loopback."""

import asyncio
import itertools
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from coreason_client import CAPClient, CAPRuntimeError, ServiceRequest
from coreason_client.agents import llm as agents_llm
from coreason_client.agents.llm import llm_agent
from coreason_client.cli.chat._service import cut_plans
from coreason_client.llm import AsyncLLMClient, LLMError, LLMRequestError
from coreason_client.llm import errors as llm_errors
from coreason_client.server import AgentApp, AgentStream, History, LogUnavailable, running
from coreason_client.server.engine._steps import Steps
from coreason_client.testing import ChaosProxy, ModelTurn, fake_model, virtual_clock
from coreason_manifest.definitions.message import (
    ChatMessage,
    FilePart,
    MessagePart,
    Role,
    TextPart,
)
from coreason_manifest.definitions.presentation import (
    CitationBlock,
    ClosePacket,
    DeltaPacket,
    EventPacket,
    Packet,
    PresentationEvent,
    PresentationEventType,
    StreamError,
)
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.session import SessionContext
from tests.cli.models import KEY, MODEL, Held, Model, answer, chunk, model, spoken, streamed
from tests.llm.server import Received, Replied, provider

sessions = itertools.count()


def llm_client(served: Model, **options: Any) -> AsyncLLMClient:
    return AsyncLLMClient(KEY, served.url, max_retries=0, timeout=10, **options)


@contextmanager
def serving(served: Model, **options: Any) -> Iterator[CAPClient]:
    """Serve the model as an agent and connect to it."""
    agent = llm_agent(MODEL, **{"client": llm_client(served), **options})
    app = AgentApp(agent, drain_timeout=0.1, cancel_grace=5)
    with running(app) as server, CAPClient(server.url, "key") as client:
        yield client


def request(
    *messages: ChatMessage | str, session: str | None = None, **payload: Any
) -> ServiceRequest:
    said = [ChatMessage.user(text) if isinstance(text, str) else text for text in messages]
    return ServiceRequest(
        context=SessionContext(session_id=session or f"s{next(sessions)}", user_id="me"),
        payload=AgentRequest(messages=said or None, **payload),
    )


def read(client: CAPClient, asked: ServiceRequest) -> list[Packet]:
    with client.assist(asked) as packets:
        return list(packets)


def text(packets: Sequence[Packet]) -> str:
    return "".join(packet.p for packet in packets if isinstance(packet, DeltaPacket))


def events(packets: Sequence[Packet]) -> list[PresentationEvent | dict[str, Any]]:
    return [packet.p for packet in packets if isinstance(packet, EventPacket)]


def failure(client: CAPClient, asked: ServiceRequest) -> tuple[list[Packet], StreamError]:
    """Return what came of a stream that ends in error, and the error."""
    packets: list[Packet] = []
    with pytest.raises(CAPRuntimeError) as caught, client.assist(asked) as stream:
        for packet in stream:
            packets.append(packet)  # noqa: PERF402 - what came before the error counts
    assert caught.value.stream_error is not None
    return packets, caught.value.stream_error


# The answer


def test_sources_are_cited_once_each_after_the_text() -> None:
    turn = ModelTurn(
        "It rains.",
        citations=[
            {"url": "https://w.example", "title": "W", "cited_text": "Rain.", "end": 2},
            {"url": "https://w.example", "title": "W", "start": 3},
            {"source_id": "file-1", "title": "Report"},
        ],
    )
    with fake_model(turn) as fake:
        client = AsyncLLMClient(**fake.options("anthropic"))
        agent = llm_agent(client=client, tools=[{"type": "web_search_20250305", "name": "w"}])
        with running(AgentApp(agent)) as server, CAPClient(server.url, "key") as cap:
            packets = read(cap, request("Hi"))
        assert [tool["name"] for tool in fake.requests[0].tools] == ["w"]
    assert text(packets) == "It rains."
    [cited] = [event for event in events(packets) if isinstance(event, PresentationEvent)]
    assert isinstance(cited.data, CitationBlock)
    shown = [(one.uri, one.title, one.snippet) for one in cited.data.citations]
    assert shown == [("https://w.example", "W", "Rain."), ("file-1", "Report", None)]


def test_the_text_comes_piece_by_piece_and_the_usage_last() -> None:
    with model(answer("Hel", "lo", "!")) as served, serving(served) as client:
        packets = read(client, request("Hi"))
    assert [p.p for p in packets if isinstance(p, DeltaPacket)] == ["Hel", "lo", "!"]
    assert isinstance(packets[-1], ClosePacket)
    assert isinstance(packets[-2], EventPacket)
    usage = packets[-2].p
    assert isinstance(usage, dict)
    assert sorted(usage) == ["data", "id", "timestamp", "type"]
    data = usage["data"]
    assert isinstance(data.pop("cost_estimate"), float)
    assert (usage["type"], data) == (
        "USAGE",
        {
            "model": MODEL,
            "finish_reason": "stop",
            "prompt_tokens": 19,
            "completion_tokens": 10,
            "total_tokens": 29,
        },
    )


def test_text_is_passed_on_while_the_model_still_writes() -> None:
    held = Held([chunk(content="first ")], spoken("second"))
    with (
        model(streamed(held)) as served,
        serving(served) as client,
        client.assist(request("Hi")) as packets,
    ):
        assert next(packets).p == "first "
        assert not held.let_go.is_set()
        held.let_go.set()
        assert text(list(packets)) == "second"


def test_a_cut_connection_of_the_reader_asks_the_model_no_second_time() -> None:
    words = [f"word{number} " for number in range(60)]
    held = Held([chunk(content=word) for word in words], spoken("end"))
    with model(streamed(held)) as served:
        app = AgentApp(llm_agent(MODEL, client=llm_client(served)), drain_timeout=0.1)
        with (
            virtual_clock(),
            running(app) as server,
            ChaosProxy(server.url, plan=cut_plans(3)) as proxy,
            CAPClient(proxy.url, "key", max_retries=10) as client,
            client.assist(request("Hi")) as packets,
        ):
            assert [next(packets).p for _ in words] == words
            # More than any first connection is let live for, and the model still writes.
            assert packets.reconnects >= 1
            assert not held.let_go.is_set()
            held.let_go.set()
            assert text(list(packets)) == "end"
        assert len(served.received) == 1


def test_a_reader_that_leaves_in_mid_answer_comes_back_to_the_same_answer() -> None:
    held = Held([chunk(content="first ")], spoken("second"))
    with model(streamed(held)) as served, serving(served) as client:
        asked = request("Hi")
        with client.assist(asked) as packets:
            assert next(packets).p == "first "
        held.let_go.set()
        assert text(read(client, asked)) == "first second"
        assert len(served.received) == 1


def test_a_huge_piece_is_written_in_several_packets() -> None:
    huge = "x" * 250_000
    with model(answer(huge)) as served, serving(served) as client:
        pieces = [p.p for p in read(client, request("Hi")) if isinstance(p, DeltaPacket)]
    assert ("".join(pieces), len(pieces)) == (huge, 3)


def test_thoughts_are_shown_by_paragraphs_before_the_text() -> None:
    chunks = [
        *(chunk(reasoning_content=text) for text in ("One", " two.\n", "\nThree", ".")),
        *spoken("Answer"),
    ]
    with model(streamed(chunks)) as served, serving(served) as client:
        packets = read(client, request("Hi"))
    shown = [event for event in events(packets) if isinstance(event, PresentationEvent)]
    assert {event.type for event in shown} == {PresentationEventType.THOUGHT_TRACE}
    assert [event.data["content"] for event in shown] == ["One two.", "Three."]
    assert isinstance(packets[2], DeltaPacket)


def test_a_thought_without_paragraphs_is_shown_before_it_is_too_long() -> None:
    chunks = [*(chunk(reasoning_content="x" * 1000) for _ in range(9)), *spoken("Answer")]
    with model(streamed(chunks)) as served, serving(served) as client:
        packets = read(client, request("Hi"))
    shown = [e.data["content"] for e in events(packets) if isinstance(e, PresentationEvent)]
    assert [len(thought) for thought in shown] == [5000, 4000]


def test_thoughts_can_be_kept_from_readers() -> None:
    chunks = [chunk(reasoning_content="secret"), *spoken("Answer")]
    with model(streamed(chunks)) as served, serving(served, thoughts=False) as client:
        packets = read(client, request("Hi"))
    assert text(packets) == "Answer"
    assert [event["type"] for event in events(packets)] == ["USAGE"]


def test_a_fallback_is_named_with_what_it_used() -> None:
    replies = Replied(status=404, body=b"{}"), answer("Hello", finish="length")
    with model(*replies) as served, serving(served, fallbacks=["gpt-4o-mini"]) as client:
        usage = events(read(client, request("Hi")))[-1]
    assert (usage["data"]["model"], usage["data"]["finish_reason"]) == ("gpt-4o-mini", "length")
    assert [sent.json["model"] for sent in served.received] == [MODEL, "gpt-4o-mini"]


def test_a_filtered_answer_says_so() -> None:
    with model(answer("Hel", finish="content_filter")) as served, serving(served) as client:
        usage = events(read(client, request("Hi")))[-1]
    assert usage["data"]["filtered"] is True


# What the model is sent


def test_a_second_turn_knows_the_first() -> None:
    options = {"system": "Be brief.", "temperature": 0.1, "max_tokens": 7}
    with model(answer("One."), answer("Two.")) as served, serving(served, **options) as client:
        read(client, request("First?", session="s"))
        read(client, request("Second?", session="s"))
        read(client, request("Other?", session="another"))
    assert served.sent(0) == [("system", "Be brief."), ("user", "First?")]
    assert served.sent(1) == [
        ("system", "Be brief."),
        ("user", "First?"),
        ("assistant", "One."),
        ("user", "Second?"),
    ]
    assert served.sent(2) == [("system", "Be brief."), ("user", "Other?")]
    body = served.received[0].json
    assert (body["temperature"], body["max_tokens"]) == (0.1, 7)
    assert served.received[0].headers["authorization"] == f"Bearer {KEY}"


def test_what_a_request_brings_along_is_not_doubled() -> None:
    with model(answer("One.")) as served, serving(served) as client:
        read(client, request("First?", session="s"))
        read(client, request("First?", ChatMessage.assistant("One."), "Second?", session="s"))
        read(client, request("Third?", session="s"))
    assert served.sent(1) == [("user", "First?"), ("assistant", "One."), ("user", "Second?")]
    assert served.sent(2) == [
        ("user", "First?"),
        ("assistant", "One."),
        ("user", "Second?"),
        ("assistant", "One."),
        ("user", "Third?"),
    ]


def test_instructions_of_a_request_replace_earlier_ones() -> None:
    told = ChatMessage(role=Role.SYSTEM, parts=[TextPart(content="Rhyme.")])
    anew = ChatMessage(role=Role.SYSTEM, parts=[TextPart(content="Sing.")])
    with model(answer("One.")) as served, serving(served, system="Be brief.") as client:
        read(client, request(told, "First?", session="s"))
        read(client, request("Second?", session="s"))
        read(client, request(anew, "Third?", session="s"))
    assert [content for role, content in served.sent(1) if role == "system"] == [
        "Be brief.",
        "Rhyme.",
    ]
    assert [content for role, content in served.sent(2) if role == "system"] == [
        "Be brief.",
        "Sing.",
    ]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"history_turns": 1}, ["22222", "Yes."]),
        ({"history_turns": 0}, []),
        ({"history_chars": 17}, ["22222", "Yes."]),
    ],
)
def test_the_history_is_trimmed_by_whole_turns(options: dict[str, int], kept: list[str]) -> None:
    with model(answer("Yes.")) as served, serving(served, **options) as client:
        for question in ("11111", "22222", "33333"):
            read(client, request(question, session="s"))
    assert [content for _, content in served.sent()] == [*kept, "33333"]


def test_an_answer_that_broke_is_sent_with_its_question() -> None:
    broken = streamed([chunk(content="half")], cut=True)
    with model(broken, answer("One.")) as served, serving(served) as client:
        failure(client, request("First?", session="s"))
        read(client, request("Again?", session="s"))
    assert served.sent() == [("user", "First?"), ("assistant", "half"), ("user", "Again?")]


def test_a_cancelled_answer_is_sent_with_its_question() -> None:
    begun = streamed([chunk(content="Once upon")], hold=True)
    with model(begun, answer("Short.")) as served, serving(served) as client:
        with client.assist(request("Tell me a story.", session="s")) as packets:
            next(packets)
            assert packets.stream_id is not None
            client.cancel(packets.stream_id)
        read(client, request("Shorter, please.", session="s"))
    assert served.sent() == [
        ("user", "Tell me a story."),
        ("assistant", "Once upon"),
        ("user", "Shorter, please."),
    ]


def test_a_question_without_an_answer_is_joined_to_the_next_one() -> None:
    """Several providers refuse two messages of the user in a row."""
    replies = refusal(500), refusal(500), answer("One.")
    with model(*replies) as served, serving(served) as client:
        failure(client, request("First?", session="s"))
        failure(client, request("Second?", session="s"))
        read(client, request("Third?", session="s"))
        read(client, request("Fourth?", session="s"))
    assert served.sent(2) == [("user", "First?\n\nSecond?\n\nThird?")]
    assert served.sent(3) == [
        ("user", "First?\n\nSecond?\n\nThird?"),
        ("assistant", "One."),
        ("user", "Fourth?"),
    ]


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, ""), (400, "context_length_exceeded"), (400, "content_filter")],
)
def test_a_question_that_the_model_refused_is_not_sent_again(status: int, code: str) -> None:
    """It would be refused again, and with it every later question."""
    replies = answer("Hi."), refusal(status, code), answer("One.")
    with model(*replies) as served, serving(served) as client:
        read(client, request("Hello", session="s"))
        failure(client, request("Refused", session="s"))
        read(client, request("Again?", session="s"))
    assert served.sent() == [("user", "Hello"), ("assistant", "Hi."), ("user", "Again?")]


def test_the_question_of_an_unsupported_request_is_not_sent_again() -> None:
    asked = message(Role.USER, TextPart(content="Read"), FilePart(file_id="f"))
    with model(answer("One.")) as served, serving(served) as client:
        failure(client, request(asked, session="s"))
        read(client, request("Again?", session="s"))
    assert served.sent() == [("user", "Again?")]


def test_a_long_question_without_an_answer_hides_no_earlier_turn() -> None:
    replies = answer("Hi."), refusal(500), answer("One.")
    with model(*replies) as served, serving(served, history_chars=20) as client:
        read(client, request("Hello", session="s"))
        failure(client, request("long " * 10, session="s"))
        read(client, request("Again?", session="s"))
    assert served.sent() == [("user", "Hello"), ("assistant", "Hi."), ("user", "Again?")]


def message(role: Role, *parts: MessagePart, name: str | None = None) -> ChatMessage:
    return ChatMessage(role=role, parts=list(parts), name=name)


def test_a_request_that_no_model_can_be_sent_is_refused() -> None:
    asked = message(Role.USER, FilePart(file_id="f"))
    with model() as served, serving(served) as client:
        _, error = failure(client, request(asked))
    assert error.code == "unsupported_content"
    assert "a part of type file," in error.message
    assert not served.received


# Errors


def test_every_error_of_the_ai_client_has_a_code_of_its_own() -> None:
    kinds = {getattr(llm_errors, name) for name in llm_errors.__all__}
    assert set(agents_llm._ERRORS) == kinds
    codes = [code for code, _ in agents_llm._ERRORS.values()]
    assert len(set(codes)) == len(codes)


def refusal(status: int, code: str = "", **headers: str) -> Replied:
    body = {"error": {"message": f"the provider's own words, {KEY}", "code": code}}
    return Replied(status, headers, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("reply", "code", "details"),
    [
        (refusal(401), "model_authentication", None),
        (refusal(403), "model_permission", None),
        (refusal(404), "model_not_found", None),
        (refusal(400, "context_length_exceeded"), "model_context_length", None),
        (refusal(400), "model_request", None),
        (refusal(429, **{"retry-after": "7"}), "model_rate_limit", {"retry_after": 7.0}),
        (refusal(429, "insufficient_quota"), "model_quota", None),
        (refusal(500), "model_server", None),
        (refusal(529), "model_overloaded", None),
        (Replied(body=b"<html>"), "model_response", None),
        (streamed([], cut=True), "model_connection", None),
    ],
)
def test_an_error_of_the_model_has_its_code_and_no_word_of_the_provider(
    reply: Replied, code: str, details: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.ERROR, "coreason_client.agents"),
        model(reply) as served,
        serving(served) as client,
    ):
        packets, error = failure(client, request("Hi"))
    assert not packets
    assert (error.code, error.details) == (code, details)
    assert "own words" not in error.message
    assert KEY not in error.message + caplog.text
    told = [record for record in caplog.records if record.name == "coreason_client.agents"]
    assert len(told) == 1
    if reply.status >= 400:
        assert "own words" in told[0].getMessage()


def test_silence_is_a_timeout() -> None:
    with model(Replied(silent=True)) as served:
        client = AsyncLLMClient(KEY, served.url, timeout=0.2, max_retries=0)
        with serving(served, client=client) as cap:
            assert failure(cap, request("Hi"))[1].code == "model_timeout"


def test_who_runs_the_agent_may_read_what_the_provider_said() -> None:
    with model(refusal(401)) as served, serving(served, tell_errors=True) as client:
        _, error = failure(client, request("Hi"))
    assert "the provider's own words" in error.message
    assert KEY not in error.message


def test_what_came_before_the_model_broke_is_kept() -> None:
    chunks = [chunk(reasoning_content="hm"), chunk(content="Hel"), chunk(content="lo")]
    with model(streamed(chunks, cut=True)) as served, serving(served) as client:
        packets, error = failure(client, request("Hi"))
    assert text(packets) == "Hello"
    assert error.code == "model_connection"
    assert error.details is not None
    assert error.details["usage"]["estimated"] is True


def test_a_thought_that_broke_off_is_shown_too() -> None:
    broken = streamed([chunk(reasoning_content="hm")], cut=True)
    with model(broken) as served, serving(served) as client:
        packets, _ = failure(client, request("Hi"))
    assert [event["data"]["content"] for event in events(packets)] == ["hm"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": 7}, "temperature must be"),
        ({"max_tokens": 0}, "max_tokens must be"),
        ({"model": " "}, "model must be"),
        ({"system": 7}, "^system must be text, got 7$"),
        ({"system": "half \ud83d"}, "^system must be valid Unicode"),
        ({"history_turns": -1}, "history_turns must be"),
        ({"history_chars": "many"}, "history_chars must be"),
    ],
)
def test_an_argument_that_cannot_work_is_refused_at_once(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(LLMRequestError, match=says):
        llm_agent(**options)


# Beginnings and ends


def test_the_environment_is_read_for_the_first_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("LLM_API_KEY", "LLM_API_BASE_URL", "DEFAULT_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    agent = llm_agent()
    with model(answer("Hello")) as served:
        app = AgentApp(agent, drain_timeout=0.1)
        assert "llm_agent.llm'" in repr(app)
        with running(app) as server, CAPClient(server.url, "key") as client:
            monkeypatch.setenv("LLM_API_BASE_URL", "nonsense")
            assert failure(client, request("Hi"))[1].code == "model_request"
            monkeypatch.setenv("LLM_API_BASE_URL", served.url)
            monkeypatch.setenv("DEFAULT_MODEL", "gpt-4o-mini")
            monkeypatch.setenv("LLM_API_KEY", KEY)
            [*_, usage] = events(read(client, request("Hi")))
            read(client, request("Hi"))
            assert usage["data"]["model"] == "gpt-4o-mini"
            # One connection for all requests, and it is closed with the application.
            assert served.provider.connections == 1
            assert served.provider.open_connections == 1
        assert served.is_left_alone()


def test_cancelling_the_stream_closes_the_connection_to_the_provider() -> None:
    with (
        model(streamed([chunk(content="begun")], hold=True)) as served,
        serving(served) as client,
        client.assist(request("Hi")) as packets,
    ):
        assert next(packets).p == "begun"
        assert packets.stream_id is not None
        client.cancel(packets.stream_id)
        assert served.was_left()
        with pytest.raises(CAPRuntimeError, match="cancelled"):
            list(packets)


def test_cancelling_before_the_first_word_closes_it_too() -> None:
    async def scene() -> None:
        asked = asyncio.Event()

        def silence(_: Received) -> Replied:
            asked.set()
            return Replied(silent=True)

        async with provider() as served:
            served.reply = silence
            client = AsyncLLMClient(KEY, served.url, max_retries=0)
            agent = llm_agent(MODEL, client=client)
            task = asyncio.create_task(agent(request("Hi"), _Silent()))
            await asyncio.wait_for(asked.wait(), 10)
            task.cancel()
            await asyncio.wait_for(served.left.wait(), 10)
            with pytest.raises(asyncio.CancelledError):
                await task
            await client.aclose()

    asyncio.run(asyncio.wait_for(scene(), 20))


def test_a_log_that_fails_closes_it_at_once() -> None:
    async def scene() -> None:
        async with provider(streamed([chunk(content="begun")], hold=True)) as served:
            client = AsyncLLMClient(KEY, served.url, max_retries=0)
            with pytest.raises(LogUnavailable) as caught:
                await llm_agent(MODEL, client=client)(request("Hi"), _Silent())
            # The error is still held, and so is everything in its traceback.
            await asyncio.wait_for(served.left.wait(), 10)
            del caught
            await client.aclose()

    asyncio.run(asyncio.wait_for(scene(), 20))


class _Silent(AgentStream):
    """A stream without a conversation, on which nothing can be written."""

    def __init__(self) -> None:
        self._steps = Steps(uuid4())

    async def history(self, limit: int = 50, *, max_bytes: int = 0) -> History:
        return History()

    async def write(self, text: str, *, checkpoint: Any = None) -> None:
        raise LogUnavailable("the log is away")


def test_the_end_of_the_server_stops_the_model() -> None:
    with model(streamed([chunk(content="begun")], hold=True)) as served:
        with serving(served) as client:
            packets = client.assist(request("Hi"))
            assert next(packets).p == "begun"
        assert served.was_left()
        packets.close()


def test_a_client_that_was_closed_says_so_as_an_error_of_the_model() -> None:
    with model() as served:
        client = llm_client(served)
        asyncio.run(client.aclose())
        with serving(served, client=client) as cap:
            assert failure(cap, request("Hi"))[1].code == "model_connection"


def test_errors_that_nobody_foresaw_have_a_code_too() -> None:
    class NewError(LLMError):
        pass

    class Broken(AsyncLLMClient):
        def stream(self, *_: Any, **__: Any) -> Any:
            raise NewError("secret")

    with model() as served, serving(served, client=Broken(KEY, served.url)) as cap:
        _, error = failure(cap, request("Hi"))
    assert (error.code, "secret" in error.message) == ("model_error", False)


def test_the_first_request_has_nothing_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine these imports block the event loop for a second.
    imported: list[bool] = []
    monkeypatch.setattr(agents_llm, "import_async_client", lambda: imported.append(True))
    llm_agent("gpt-4o", client=AsyncLLMClient("sk"))
    assert imported == []
    llm_agent("gpt-4o")
    assert imported == [True]
