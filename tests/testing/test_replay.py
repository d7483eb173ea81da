import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from coreason_client import (
    A2AClient,
    ArgumentError,
    CAPClient,
    CAPRuntimeError,
    LLMClient,
    LLMConnectionError,
    LLMServerError,
)
from coreason_client.testing import (
    ModelTurn,
    RecordingError,
    ask,
    disconnect,
    fake_a2a,
    fake_agent,
    fake_model,
    record,
    recorded,
    replay,
    virtual_clock,
)
from coreason_client.testing._loopback import HTTPRequest, ResponseWriter
from tests.testing.test_loopback import serving
from tests.testing.test_record import get, lines_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.jsonl"


@pytest.fixture(autouse=True)
def _no_waits() -> Iterator[None]:
    with virtual_clock():
        yield


def llm(url: str) -> LLMClient:
    return LLMClient("k", url, "m", max_retries=0, provider="openai")


def asked(content: str = "Hi") -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


def test_a_cap_stream_with_its_lost_connection_is_replayed(path: Path) -> None:
    def use(url: str) -> tuple[str, list[Any]]:
        with CAPClient(url, "key-17-secret") as client:
            stream = client.chat("Hi")
            return "".join(stream), [stream.stream_id, client.ask("Again")]

    script: list[Any] = ["Hello ", disconnect(), "wörld ", disconnect(), "😀"]
    with fake_agent(script, "Yes") as agent, record(path, agent.url) as recorder:
        first = use(recorder.url)
    with replay(path, require_all=True) as service:
        again = use(service.url)
    assert first == again  # the same stream id, although the request ids are new
    assert first[0] == "Hello wörld 😀"
    requests = [line for line in lines_of(path) if "request" in line]
    assert len({line["json"]["request_id"] for line in requests}) == 2
    assert [line["headers"].get("last-event-id", "")[-2:] for line in requests] == [
        "",
        ":1",
        ":2",
        "",
    ]
    assert "key-17-secret" not in path.read_text()


def test_an_a2a_conversation_is_replayed(path: Path) -> None:
    def use(url: str) -> list[str]:
        with A2AClient.connect(url) as client:
            task = client.send_message("Paint the door.")
            stream = client.send_message_stream("Red", reply_to=task)
            return [task.text, "".join(event.text for event in stream)]

    scripts: list[Any] = [[ask("Which colour?")], ["The door ", disconnect(), "is red."]]
    with fake_a2a(*scripts) as agent, record(path, agent.url) as recorder:
        assert use(recorder.url) == ["Which colour?", "The door is red."]
        assert agent.disconnects == 1
    with replay(path, require_all=True) as service:
        assert use(service.url) == ["Which colour?", "The door is red."]


def test_an_answer_has_the_id_of_the_request_that_it_gets(path: Path) -> None:
    def say(url: str, *words: str) -> list[str]:
        with A2AClient.connect(url) as client:
            streams = [client.send_message_stream(word) for word in words]
            return ["".join(event.text for event in stream) for stream in streams]

    with fake_a2a("One", "Two") as agent, record(path, agent.url) as recorder:
        assert say(recorder.url, "a", "b") == ["One", "Two"]
    with replay(path) as service:
        assert say(service.url, "b") == ["Two"]  # request 1 of JSON-RPC, and 2 in the recording


def test_streams_of_a_model_are_replayed_with_their_chunks(path: Path) -> None:
    def use(url: str) -> list[Any]:
        with llm(url) as client:
            whole = client.generate(asked())["data"]["content"]
            pieces = [*client.stream(asked()).text()]
            with pytest.raises(LLMConnectionError) as caught:
                client.stream(asked("break")).result()
            partial = caught.value.partial
            return [whole, pieces, partial and partial["data"]["content"]]

    turns = [ModelTurn("A whole"), ModelTurn(["In ", "pieces"])]
    turns.append(ModelTurn("one two", disconnect_after=1))
    with fake_model(turns) as model, record(path, f"{model.url}/v1") as recorder:
        first = use(recorder.url)
    assert first == ["A whole", ["In ", "pieces"], "one "]
    with replay(path, require_all=True) as service:
        assert use(service.url) == first


def test_a_bedrock_stream_is_replayed(path: Path) -> None:
    def use(url: str) -> list[str]:
        with LLMClient("k", url, "m", provider="bedrock") as client:
            return [*client.stream(asked()).text()]

    with fake_model("Hello there") as model, record(path, model.url) as recorder:
        assert use(recorder.url) == ["Hello ", "there"]
    with replay(path) as service:
        assert use(service.url) == ["Hello ", "there"]


def recorded_answers(path: Path, *texts: str) -> None:
    with (
        fake_model([*texts]) as model,
        record(path, f"{model.url}/v1") as recorder,
        llm(recorder.url) as client,
    ):
        for text in texts:
            client.generate(asked(text))


@pytest.mark.proves("KIT-replay-unknown")
def test_a_request_that_was_not_recorded_fails_on_both_sides(path: Path) -> None:
    recorded_answers(path, "Hi", "Ho")
    expected = r"POST /v1/chat/completions is not in file.jsonl; the nearest is request 1:\s+body"
    with (
        pytest.raises(AssertionError, match=expected),
        replay(path) as service,
        llm(service.url) as client,
        pytest.raises(LLMServerError, match=expected) as caught,
    ):
        client.generate(asked("Hi!"))
    assert 'body.messages[0].content is "Hi" in the recording, got "Hi!"' in str(caught.value)
    with (
        pytest.raises(CAPRuntimeError, match=r"not in file.jsonl") as refused,
        replay(path) as service,
        CAPClient(service.url, "any") as agent,
    ):
        agent.ask("Hi")
    assert refused.value.status_code == 501
    assert "is not in file.jsonl" in refused.value.__notes__[0]


def test_a_request_that_is_sent_too_often_fails(path: Path) -> None:
    recorded_answers(path, "Hi")
    often = pytest.raises(LLMServerError, match=r"was sent more often than file.jsonl has it")
    with often, replay(path) as service, llm(service.url) as client:
        client.generate(asked())
        client.generate(asked())
    nothing = pytest.raises(LLMServerError, match="which has no more requests")
    with nothing, replay(path) as service, llm(service.url) as client:
        client.generate(asked())
        client.generate(asked("other"))


def test_exchanges_that_are_left_can_be_an_error(path: Path) -> None:
    recorded_answers(path, "Hi", "Ho", "Hey")
    left = pytest.raises(AssertionError, match=r"requests that were not sent: 1, 3$")
    with left, replay(path, require_all=True) as service, llm(service.url) as client:
        assert client.generate(asked("Ho"))["data"]["content"] == "Ho"


@pytest.mark.proves("KIT-replay-order")
def test_the_same_request_gets_its_answers_in_order(path: Path) -> None:
    with (
        fake_model(["A", "B"]) as model,
        record(path, f"{model.url}/v1") as recorder,
        llm(recorder.url) as client,
    ):
        assert [client.generate(asked())["data"]["content"] for _ in "12"] == ["A", "B"]
    with replay(path, ignore=["temperature"]) as service, llm(service.url) as client:
        answers = [client.generate(asked(), temperature=n)["data"]["content"] for n in (0, 1)]
    assert answers == ["A", "B"]


def test_responses_that_broke_off_do_so_again(path: Path) -> None:
    async def answer(request: HTTPRequest, response: ResponseWriter) -> None:
        if request.path == "/half":
            await response.broken(200, [], b"ab")
        elif request.path == "/empty":
            await response.broken(200, [], b"")

    def use(url: str) -> list[str]:
        outcomes = []
        for target in ("/half", "/empty", "/nothing"):
            try:
                get(url, target)
            except Exception as error:  # noqa: BLE001 - compared below
                outcomes.append(type(error).__name__)
        return outcomes

    with serving(answer) as server, record(path, server.url) as recorder:
        first = use(recorder.url)
    with replay(path, require_all=True) as service:
        assert use(service.url) == first
    assert len(first) == 3


def test_the_speed_is_that_of_the_recording_if_a_test_asks_for_it(path: Path) -> None:
    lines = [
        {"format": "coreason-recording", "version": 1, "base": ""},
        {"request": 1, "method": "GET", "path": "/", "headers": {}},
        {"response": 1, "status": 200, "headers": {}, "chunked": True, "at": 20},
        *({"chunk": "x", "at": at} for at in (40, 60, 60)),
        {"end": "complete"},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for speed, least, most in ((None, 0, 5), (1000.0, 0.06, 5)):
        with replay(path, speed=speed) as service:
            start = monotonic()
            assert get(service.url) == (200, b"xxx")
            assert least <= monotonic() - start < most


def test_recorded_records_once(path: Path) -> None:
    with fake_model("Hello") as model:
        for _ in range(2):  # the second time without the model
            with recorded(path, f"{model.url}/v1") as service, llm(service.url) as client:
                assert client.generate(asked())["data"]["content"] == "Hello"
    assert len(model.requests) == 1


def test_wrong_use_is_explained(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replay(path)
    path.write_text("{}")
    with pytest.raises(RecordingError, match=r"file.jsonl: the first line must have the format"):
        replay(path)
    path.write_bytes(b"\xff")
    with pytest.raises(RecordingError, match="must be UTF-8"):
        replay(path)
    path.write_text('{"format": "coreason-recording", "version": 1, "base": ""}')
    with pytest.raises(ArgumentError, match="speed must be None or greater than 0, got 0"):
        replay(path, speed=0)
    service = replay(path)
    with pytest.raises(RuntimeError, match="only within `with replay"):
        _ = service.url
    with service, pytest.raises(RuntimeError, match="runs already"):
        service.__enter__()
