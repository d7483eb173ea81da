"""Nothing that comes from outside becomes a new header, event or line."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client import A2AClient, AsyncCAPClient, CAPClient
from coreason_client.a2a import AgentCardResolver
from coreason_client.cap.position import Position
from coreason_client.llm import AsyncLLMClient, LLMError
from coreason_client.llm._check_call import check_call
from coreason_client.llm._plan import CallPlan
from coreason_client.llm._route import Target
from coreason_client.server import AgentApp, AgentStream
from coreason_client.server.http._auth import Keys
from coreason_client.sse import SSEDecoder, encode_comment, encode_event
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest
from tests.cap.scripted import Connection, Network, failure, machine_for, run_sync
from tests.each import each
from tests.fuzz.corpus import PACKETS, STREAM_ID
from tests.fuzz.inprocess import in_process
from tests.fuzz.strategies import examples, wire
from tests.server.peer import envelope

INJECTED = "X-Injected: yes"
BREAKS = ("\r", "\n", "\r\n", "\n\n")
NASTY = [f"a{end}{INJECTED}" for end in BREAKS] + [f"{end}a" for end in BREAKS]
LINE_LIKE = "a\x0bb\x0cc\x1cd\x1ee\x85f\u2028g\u2029h"
"""Line ends for `str.splitlines` that are none for the standard."""


# On the server


@each("value", NASTY)
def test_an_id_or_a_name_of_an_event_is_one_line(value: str) -> None:
    for fields in ({"id": value}, {"event": value}):
        with pytest.raises(ValueError, match="must be one line"):
            encode_event("x", **fields)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be one line"):
        encode_comment(value)


def test_data_stays_data() -> None:
    data = f"a\n\nid: 666\nevent: evil\nretry: 1\r\r{LINE_LIKE}"
    decoder = SSEDecoder()
    [event] = decoder.feed(encode_event(data, id="7"))
    assert (event.data, event.id, event.event) == (data.replace("\r", "\n"), "7", "message")
    assert decoder.retry_ms is None


@examples(30)
@given(text=st.text(max_size=60) | st.sampled_from([*NASTY, LINE_LIKE, "\n\ndata: {}\n\n"]))
def test_what_an_agent_writes_makes_no_second_event(text: str) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write(text or "x")
        await stream.write_packet(op=StreamOpCode.EVENT, p={text: text})

    with in_process(AgentApp(agent)) as server:
        answer = server.ask(wire(envelope()))
    events = SSEDecoder().feed(answer.body)
    assert len(events) == answer.body.count(b"\n\n")
    assert [event.id.rpartition(":")[2] for event in events] == [
        str(seq) for seq in range(1, len(events) + 1)
    ]


@pytest.mark.parametrize("value", [*NASTY, "a b", "é", STREAM_ID + "\x0b", "{%0d%0a}"])
def test_the_echo_of_a_request_id_is_a_uuid_or_another_one(value: str) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("x")

    body = {name: member for name, member in envelope().items() if name != "request_id"}
    headers = [
        (b"content-type", b"application/json"),
        (b"x-request-id", value.encode("latin-1", "replace")),
    ]
    with in_process(AgentApp(agent)) as server:
        answer = server.ask(wire(body), headers)
    assert answer.status == 200
    for name in ("x-request-id", "x-stream-id"):
        assert len(answer.headers[name]) == 36
        assert answer.headers[name].replace("-", "").isalnum()


@pytest.mark.parametrize("value", [*NASTY, "", " a", "a\0b", "\x7f"])
def test_a_key_of_a_server_is_one_line(value: str) -> None:
    with pytest.raises(ValueError, match="visible ASCII characters") as caught:
        Keys([value])
    assert INJECTED not in str(caught.value)
    with pytest.raises(ValueError, match="visible ASCII characters"):
        AgentApp(_nobody, metrics=True, metrics_key=value)


async def _nobody(request: ServiceRequest, stream: AgentStream) -> None:
    """Answer nothing."""


# In the clients


def make(kind: str, value: str) -> object:
    """Make a client with a value where a secret or a header goes."""
    url = "https://agent.example"
    made: dict[str, Any] = {
        "cap key": lambda: CAPClient(url, value),
        "async cap key": lambda: AsyncCAPClient(url, value),
        "cap header": lambda: CAPClient(url, "k", headers={"X-Team": value}),
        "cap header name": lambda: CAPClient(url, "k", headers={value: "x"}),
        "a2a header": lambda: A2AClient(url, headers={"X-Team": value}),
        "card header": lambda: AgentCardResolver(headers={"X-Team": value}),
        "llm key": lambda: AsyncLLMClient(value, url),
        "llm key of another": lambda: AsyncLLMClient("k", url, keys={"anthropic": value}),
        "llm header": lambda: AsyncLLMClient("k", url, headers={"X-Team": value}),
        "llm header name": lambda: AsyncLLMClient("k", url, headers={value: "x"}),
    }
    return made[kind]()


@each("value", NASTY)
@pytest.mark.parametrize(
    "kind",
    [
        *("cap key", "async cap key", "cap header", "cap header name", "a2a header"),
        *("card header", "llm key", "llm key of another", "llm header", "llm header name"),
    ],
)
def test_keys_and_headers_with_line_ends_are_refused_at_once(kind: str, value: str) -> None:
    with pytest.raises(ValueError) as caught:
        make(kind, value)
    if not kind.endswith("name"):  # a value may be a secret
        assert INJECTED not in str(caught.value)


@each("value", NASTY)
def test_a_key_that_is_asked_for_later_is_refused_too(value: str) -> None:
    with (
        CAPClient("http://127.0.0.1:9", lambda: value, max_retries=0) as client,
        pytest.raises(ValueError, match="visible ASCII"),
    ):
        client.health()


@pytest.mark.parametrize("value", [*NASTY, "\0", " x ", "\x85", "\x7f", "x\x0by"])
def test_an_id_that_is_no_header_is_not_sent_as_one(value: str) -> None:
    """Neither one that came from a server, nor one that was kept and may have been changed."""
    packet = wire(PACKETS[0])
    sent_by_server = b"id: " + value.encode("utf-8") + b"\ndata: " + packet + b"\n\n"
    network = Network([Connection([sent_by_server], failure()), Connection(), Connection()])
    run_sync(machine_for(max_retries=1), network)
    # Kept with a position, and given back.
    position = Position(stream_id=PACKETS[0]["stream_id"], seq=1, cursor=value)
    again = Network([Connection(), Connection()])
    run_sync(machine_for(max_retries=0, position=position), again)
    cursors = [*network.cursors, *again.cursors]
    assert again.cursors
    assert all(cursor is None or INJECTED not in cursor for cursor in cursors)
    assert all(c is None or (c.isprintable() and c == c.strip()) for c in cursors)


MODELS = [
    *("../../admin", "m?key=stolen", "m#x", "a/../b", "m\r\nX-Injected: yes", "m n", "m%2e%2e"),
    *("m\0", "..", "//evil.example/x", "@evil.example", "models/../../x", "é", "m:generate?x="),
]


@each("model", MODELS)
@pytest.mark.parametrize("wire_format", ["openai", "anthropic", "gemini", "ollama"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_model_is_a_name_and_not_a_way(wire_format: str, model: str, *, stream: bool) -> None:
    """However it is called, the request goes to the place that was configured."""
    target = Target("http://127.0.0.1:9/base", "k", provider=wire_format)
    try:
        route = target.route(model)
        messages = [{"role": "user", "content": "hi"}]
        plan = CallPlan(
            check_call(messages, route.model, None, 0.7, 9, stream=stream), route, model
        )
    except (LLMError, ValueError):
        return
    before, _, path = plan.url.partition("/base/")
    assert before == "http://127.0.0.1:9"
    assert not any(c in plan.url for c in "\r\n\0 #")
    assert ".." not in path.replace("%2E", ".").split("/")
    assert "stolen" not in path.partition("?")[2]
    assert all(c not in value for value in plan.route.headers.values() for c in "\r\n\0")


def test_no_client_is_left_open() -> None:
    """The clients above are made and thrown away; closing one twice does no harm."""
    client = AsyncCAPClient("https://agent.example", "k")
    asyncio.run(client.aclose())
    asyncio.run(client.aclose())
