"""A reader that leaves does not stop the agent, and one that has to leave knows it."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import httpx2
import openai
import pytest

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog, running

from ..peer import Gate
from .asking import LIMIT, MODEL, client_of, serving

CHAT: Any = {"model": MODEL, "messages": [{"role": "user", "content": "?"}]}


class Shared(MemoryStreamLog):
    """A memory log that several processes could share, as far as an application can tell."""

    shared: ClassVar[bool] = True


@contextmanager
def draining(app: AgentApp) -> Iterator[tuple[str, threading.Event]]:
    """Serve until the event is set, and drain from then on."""
    stop, ready, urls = threading.Event(), threading.Event(), list[str]()

    def serve() -> None:
        with running(app) as server:
            urls.append(server.url)
            ready.set()
            stop.wait(LIMIT)

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(LIMIT)
    try:
        yield urls[0], stop
    finally:
        stop.set()
        thread.join(LIMIT)
        assert not thread.is_alive()


def two_words(gate: Gate) -> Any:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("one ")
        await gate.wait()
        await stream.write("two")

    return agent


def text_of(client: Any, stream_id: str) -> tuple[str | None, str]:
    """Return the status and the text of a stream once it has ended."""
    response_id = f"resp_{stream_id.replace('-', '')}"
    *_, last = client.responses.retrieve(response_id, stream=True)
    return last.response.status, last.response.output_text


def test_leaving_a_stream_is_not_cancelling() -> None:
    gate = Gate()
    with serving(two_words(gate)) as client:
        url = f"{client.base_url}chat/completions"
        with httpx2.stream("POST", url, json={**CHAT, "stream": True}, timeout=LIMIT) as answer:
            stream_id = answer.headers["x-stream-id"]
            next(answer.iter_bytes())
        gate.seen()
        gate.open()
        assert text_of(client, stream_id) == ("completed", "one two")


def test_leaving_a_request_without_a_stream_is_not_cancelling() -> None:
    gate, headers = Gate(), {"Idempotency-Key": "one"}
    with serving(two_words(gate)) as client:
        url = f"{client.base_url}chat/completions"
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(url, json=CHAT, headers=headers, timeout=1.0)
        gate.seen()
        gate.open()
        again = client.with_options(default_headers=headers).chat.completions.create(**CHAT)
        assert again.choices[0].message.content == "one two"


def test_a_drain_cuts_readers_off_who_can_go_on_elsewhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = Gate()
    app = AgentApp(two_words(gate), log=Shared(), agent_id=MODEL, openai=True, drain_timeout=LIMIT)
    with caplog.at_level(logging.INFO), draining(app) as (url, stop), client_of(url) as client:
        chunks = client.chat.completions.create(**CHAT, stream=True)
        next(chunks)
        events = client.responses.create(model=MODEL, input="?", stream=True)
        next(events)
        whole: list[BaseException] = []

        def ask() -> None:
            try:
                client.chat.completions.create(**CHAT)
            except openai.APIStatusError as error:
                whole.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        gate.seen()
        _wait_for_readers(app, 3)
        stop.set()
        for stream in (chunks, events):
            # A regular end would be half an answer that looks whole.
            with pytest.raises(
                (httpx2.RemoteProtocolError, openai.APIConnectionError, Exception)
            ) as caught:
                list(stream)
            assert type(caught.value).__name__ in (
                "RemoteProtocolError",
                "ReadError",
                "APIConnectionError",
            )
        asking.join(LIMIT)
        [refused] = whole
        assert isinstance(refused, openai.InternalServerError)
        assert (refused.status_code, refused.code) == (503, "shutting_down")
        assert refused.response.headers["retry-after"] == "1"
        gate.open()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def _wait_for_readers(app: AgentApp, count: int) -> None:
    for _ in range(int(LIMIT * 100)):
        runtime = app._runtime
        if runtime is not None and runtime.producers.readers == count:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the readers did not come")


def test_heartbeats_are_comments_that_the_client_ignores() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("one ")
        await asyncio.sleep(0.3)
        await stream.write("two")

    with serving(agent, heartbeat=0.05) as client:
        chunks = client.chat.completions.create(**CHAT, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "one two"
        events = client.responses.create(model=MODEL, input="?", stream=True)
        numbers = [event.sequence_number for event in events]
        assert numbers == list(range(len(numbers)))


def test_keys_and_principals_are_those_of_the_server() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("yes")

    keys = {"a-key-of-ann": "ann", "a-key-of-bob": "bob"}
    app = AgentApp(agent, agent_id=MODEL, openai=True, api_keys=keys)
    with running(app) as server:
        ann, bob, nobody = (client_of(server.url, key) for key in (*keys, "wrong"))
        response = ann.responses.create(model=MODEL, input="?")
        assert ann.responses.retrieve(response.id).output_text == "yes"
        unknown = f"resp_{'0' * 32}"
        for other in (response.id, unknown):
            for call in (
                lambda id_: bob.responses.retrieve(id_),
                lambda id_: list(bob.responses.retrieve(id_, stream=True)),
                lambda id_: bob.responses.cancel(id_),
                lambda id_: bob.responses.delete(id_),
                lambda id_: bob.responses.input_items.list(id_),
                lambda id_: bob.responses.create(model=MODEL, input="?", previous_response_id=id_),
            ):
                with pytest.raises(openai.NotFoundError) as caught:
                    call(other)
                assert caught.value.code == "response_not_found"
        for refused in (
            nobody.models.list,
            lambda: nobody.models.retrieve(MODEL),
            lambda: nobody.chat.completions.create(**CHAT),
            lambda: nobody.responses.retrieve("no id at all"),
        ):
            with pytest.raises(openai.AuthenticationError):
                refused()
        for client in (ann, bob, nobody):
            client.close()


def test_a_web_page_may_send_the_headers_of_the_package() -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("yes")

    origin = "https://app.example"
    names = "authorization,content-type,idempotency-key,x-stainless-retry-count,openai-project"
    with serving(agent, cors_origins=[origin]) as client:
        url = f"{client.base_url}chat/completions"
        asked = {
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": names,
        }
        assert httpx2.options(url, headers=asked).status_code == 200
        answer = httpx2.post(url, json=CHAT, headers={"Origin": origin})
        assert answer.headers["access-control-allow-origin"] == origin
        assert "x-should-retry" in answer.headers["access-control-expose-headers"].lower()
        refused = httpx2.post(url, json=CHAT, headers={"Origin": "https://other.example"})
        assert "access-control-allow-origin" not in refused.headers
