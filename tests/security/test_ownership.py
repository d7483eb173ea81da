"""A stream belongs to whose key began it: whoever knows its id, and nothing else, gets a 404."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog
from coreason_manifest.definitions.service import ServiceRequest
from tests.fuzz.inprocess import Answered, InProcess, in_process
from tests.fuzz.strategies import wire
from tests.server.peer import envelope

SECRET = "the secret of ann"
KEYS = {"key-of-ann": "ann", "second-of-ann": "ann", "key-of-bob": "bob"}


async def remembers(request: ServiceRequest, stream: AgentStream) -> None:
    """Repeat everything that was ever said in this conversation."""
    for message in await stream.history():
        await stream.write(f"[{message.text}]")
    assert request.payload.messages is not None
    await stream.write(request.payload.messages[-1].text)


@pytest.fixture
def server() -> Iterator[InProcess]:
    with in_process(AgentApp(remembers, api_keys=KEYS)) as server:
        yield server


def ask(server: InProcess, key: str, body: dict[str, Any], **headers: str) -> Answered:
    named = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {key}".encode())]
    named += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return server.ask(wire(body), named)


def cancel(server: InProcess, key: str, stream_id: str) -> Answered:
    named = [(b"authorization", f"Bearer {key}".encode())]
    return server.ask(b"", named, method="DELETE", path=f"/streams/{stream_id}")


def document(answer: Answered, stream_id: str) -> tuple[int, str]:
    """A refusal, but for the id that the caller gave."""
    return answer.status, answer.body.decode().replace(stream_id, "<id>")


@pytest.mark.proves("RES2-12a")
def test_a_stolen_id_is_as_good_as_a_guessed_one(server: InProcess) -> None:
    """Not even the difference between another's stream and none at all can be seen."""
    body = envelope(SECRET)
    mine = ask(server, "key-of-ann", body)
    stolen, guessed = mine.headers["x-stream-id"], str(uuid4())
    for suffix in ("", ":0", ":1", ":2", ":999999999999999999"):
        refusals = [
            ask(server, "key-of-bob", body, last_event_id=stream_id + suffix)
            for stream_id in (stolen, guessed)
        ]
        assert document(refusals[0], stolen) == document(refusals[1], guessed)
        assert refusals[0].status == 404
        assert SECRET.encode() not in refusals[0].body
    of_stolen, of_guessed = (cancel(server, "key-of-bob", it) for it in (stolen, guessed))
    assert document(of_stolen, stolen) == document(of_guessed, guessed)
    assert of_stolen.status == 404
    # The owner, by whichever key, is not kept out by any of it.
    assert ask(server, "second-of-ann", body, last_event_id=f"{stolen}:1").status == 200
    assert cancel(server, "second-of-ann", stolen).status == 204


@pytest.mark.proves("RES2-12a")
@pytest.mark.parametrize("by", ["body", "header"])
def test_a_stolen_request_id_joins_nothing(server: InProcess, by: str) -> None:
    """It is free for everybody else: even a 409 would tell that it is known."""
    body = envelope(SECRET)
    mine = ask(server, "key-of-ann", body)
    request_id = body["request_id"]
    foreign = envelope("x")
    if by == "body":
        answer = ask(server, "key-of-bob", {**foreign, "request_id": request_id})
    else:
        del foreign["request_id"]
        answer = ask(server, "key-of-bob", foreign, x_request_id=request_id)
    assert answer.status == 200
    assert answer.headers["x-request-id"] == request_id
    assert answer.headers["x-stream-id"] != mine.headers["x-stream-id"]
    assert SECRET.encode() not in answer.body
    assert ask(server, "key-of-ann", body).headers["x-stream-id"] == mine.headers["x-stream-id"]


@pytest.mark.proves("RES2-12a")
def test_a_conversation_id_is_no_key_to_its_history(server: InProcess) -> None:
    session = "shared-conversation"
    ask(server, "key-of-ann", envelope(SECRET, session))
    assert SECRET.encode() in ask(server, "second-of-ann", envelope("and?", session)).body
    assert SECRET.encode() not in ask(server, "key-of-bob", envelope("and?", session)).body


@pytest.mark.proves("RES2-12a")
def test_two_agents_on_one_log_do_not_share_either() -> None:
    log = MemoryStreamLog()
    body, session = envelope(SECRET, "s"), "s"
    with in_process(AgentApp(remembers, log=log, api_keys=KEYS, agent_id="one")) as one:
        stream_id = ask(one, "key-of-ann", body).headers["x-stream-id"]
    with in_process(AgentApp(remembers, log=log, api_keys=KEYS, agent_id="two")) as two:
        assert ask(two, "key-of-ann", body, last_event_id=stream_id).status == 404
        assert SECRET.encode() not in ask(two, "key-of-ann", envelope("?", session)).body


@pytest.mark.proves("RES2-12a")
def test_agents_and_principals_with_slashes_do_not_become_one_another() -> None:
    """Agent `a` with principal `b/c` is not agent `a/b` with principal `c`."""
    log = MemoryStreamLog()
    body = envelope(SECRET, "s")
    one = AgentApp(remembers, log=log, api_keys={"k": "b/c"}, agent_id="a")
    two = AgentApp(remembers, log=log, api_keys={"k": "c"}, agent_id="a/b")
    with in_process(one) as server:
        stream_id = ask(server, "k", body).headers["x-stream-id"]
    with in_process(two) as server:
        assert ask(server, "k", body, last_event_id=stream_id).status == 404
        assert cancel(server, "k", stream_id).status == 404
        assert SECRET.encode() not in ask(server, "k", envelope("?", "s")).body


@pytest.mark.parametrize(
    "given",
    [
        *("", "Bearer", "Bearer ", "bearer key-of-an", "Bearer key-of-annn", "Bearer KEY-OF-ANN"),
        *("Basic key-of-ann", "key-of-ann", "Bearer key-of-ann key-of-bob", "Bearer\tkey-of-ann"),
        *("Bearer ann", "Bearer *", "Bearer null", "Bearer \xe9"),
    ],
)
def test_what_is_not_quite_a_key_is_none(server: InProcess, given: str) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"authorization", given.encode("latin-1")),
    ]
    answer = server.ask(wire(envelope()), headers)
    assert answer.status == 401
    assert answer.problem["detail"] == "Send a known key as `Authorization: Bearer <key>`."
