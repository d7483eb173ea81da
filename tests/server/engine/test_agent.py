"""The kind of an agent is decided when the application is made."""

import functools
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog

from ..conftest import Serve
from ..peer import envelope, wait_for


async def function(request: Any, stream: Any) -> None:
    await stream.write("f")


async def generator(request: Any) -> AsyncIterator[str]:
    yield "g"


class Instance:
    async def __call__(self, request: Any, stream: Any) -> None:
        await stream.write("i")


class Generating:
    async def __call__(self, request: Any) -> AsyncIterator[str]:
        yield "y"


class WithMethod:
    async def assist(self, request: Any, stream: Any) -> None:
        await stream.write("m")


async def request_only(request: Any) -> str:
    return "o"


async def with_more(request: Any, stream: Any, word: str) -> None:
    await stream.write(word)


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        (function, "f"),
        (generator, "g"),
        (Instance(), "i"),
        (Generating(), "y"),
        (WithMethod().assist, "m"),
        (request_only, "o"),
        (functools.partial(with_more, word="p"), "p"),
    ],
    ids=["function", "generator", "instance", "generating", "method", "request", "partial"],
)
def test_agents(serve: Serve, agent: Any, text: str) -> None:
    assert serve(agent).ask().text == text


async def returning(request: Any, stream: Any) -> str:
    return "r"


async def writing_and_returning(request: Any, stream: Any) -> str:
    await stream.write("written, ")
    return "then returned"


class ReturningInstance:
    async def __call__(self, request: Any, stream: Any) -> str:
        return "c"


@pytest.mark.parametrize(
    ("agent", "texts"),
    [
        (returning, ["r"]),
        (writing_and_returning, ["written, ", "then returned"]),
        (ReturningInstance(), ["c"]),
        (functools.partial(with_more, word="nothing is returned"), ["nothing is returned"]),
    ],
    ids=["function", "both", "instance", "partial"],
)
def test_a_returned_string_is_written_last(serve: Serve, agent: Any, texts: list[str]) -> None:
    answer = serve(agent).ask()
    assert answer.payloads == [*texts, {"reason": "complete"}]


def test_an_empty_string_writes_nothing(serve: Serve) -> None:
    async def agent(request: Any, stream: Any) -> str:
        return ""

    assert serve(agent).ask().payloads == [{"reason": "complete"}]


def test_a_long_string_is_returned_in_several_packets(serve: Serve) -> None:
    text = "\x00x€😀" * 300_000  # with escapes more than one packet may hold

    async def agent(request: Any, stream: Any) -> str:
        return text

    answer = serve(agent).ask()
    assert answer.text == text
    assert len(answer.packets) > 2


def test_a_returned_string_is_part_of_the_conversation(serve: Serve) -> None:
    async def agent(request: Any, stream: AgentStream) -> str:
        return "|".join(message.text for message in await stream.history())

    peer = serve(agent)
    assert [peer.ask(envelope(word)).text for word in "ab"] == ["", "a|"]


@pytest.mark.parametrize("returned", [7, b"text", ["text"], {"text": "t"}, False, object()])
def test_any_other_returned_value_is_an_error_of_the_agent(
    serve: Serve, returned: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def forgetful(request: Any, stream: Any) -> Any:
        await stream.write("half")
        return returned

    with caplog.at_level(logging.ERROR, "coreason_client.server"):
        answer = serve(forgetful).ask()
    assert (answer.text, answer.last.p.code) == ("half", "agent_error")
    [record] = caplog.records
    name = type(returned).__name__
    message = record.getMessage()
    assert "forgetful must return its text as a string" in message
    assert f", got {name}" in message
    assert answer.last.p.message == "The agent failed with an internal error."


def test_a_string_that_comes_after_the_end_is_reported(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent(request: Any, stream: AgentStream) -> str:
        await stream.fail("no_data", "There is no data.")
        return "too late"

    reported = threading.Event()  # after the end that a reader sees, so it has to be waited for

    def report(record: logging.LogRecord) -> bool:
        if "has ended and accepts no more packets" in record.getMessage():
            reported.set()
        return True

    caplog.handler.addFilter(report)
    with caplog.at_level(logging.ERROR, "coreason_client.server"):
        assert serve(agent).ask().last.p.code == "no_data"
        wait_for(reported)


async def three_arguments(request: Any, stream: Any, more: Any) -> None: ...
def plain_without_arguments() -> None: ...


async def no_arguments() -> AsyncIterator[str]:
    yield ""


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (plain_without_arguments, "plain_without_arguments does not take"),
        (iter, "iter does not take"),  # which has no signature
        (three_arguments, "three_arguments does not take"),
        (no_arguments, "no_arguments does not take"),
        (WithMethod, "WithMethod is a class"),
        (WithMethod(), "WithMethod cannot be called"),
        ("agent", "str cannot be called"),
        (None, "NoneType cannot be called"),
    ],
)
def test_what_is_no_agent_is_refused_with_a_sentence(agent: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words) as caught:
        AgentApp(agent)
    assert str(caught.value).startswith("an agent is `async def assist(request, stream)`")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heartbeat": 0}, "heartbeat must be greater than 0"),
        ({"send_timeout": -1}, "send_timeout must be greater than 0"),
        ({"max_body_bytes": 0}, "max_body_bytes must be greater than 0"),
        ({"retention": -1}, "retention must be 0 or more"),
        ({"retention": 100, "final_retention": 10}, "outlives its packets"),
        ({"on_abandoned": "explode"}, "got 'explode'"),
        ({"heartbeat": float("nan")}, "heartbeat must be greater than 0"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        AgentApp(function, **options)


def test_abandonment_cannot_be_known_with_a_shared_log() -> None:
    class Shared(MemoryStreamLog):
        shared = True

    with pytest.raises(ValueError, match="readers of one process"):
        AgentApp(function, log=Shared(), on_abandoned="cancel")


def test_a_repr_shows_no_key() -> None:
    app = AgentApp(function, api_keys=["hunter2"])
    assert repr(app) == f"<AgentApp '{__name__}.function' on MemoryStreamLog>"
    assert "hunter2" not in repr(vars(app))
