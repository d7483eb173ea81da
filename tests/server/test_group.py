"""Several agents at one address: their paths, the models that they share, and their lives."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client import A2AClient, ArgumentError, CAPClient, CAPRuntimeError
from coreason_client.server import (
    AgentApp,
    AgentGroup,
    AgentStream,
    LogUnavailable,
    MemoryStreamLog,
    SQLiteStreamLog,
    StreamLog,
    check_host,
    running,
)
from coreason_manifest.definitions.service import ServiceRequest
from tests.each import each

from .peer import LIMIT, Peer
from .program import Program

KEYS = {"key-ann": "ann", "key-bob": "bob"}
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


async def cat(request: ServiceRequest, stream: AgentStream) -> None:
    """Says meow."""
    before = [turn.text for turn in await stream.history()]
    await stream.write(f"meow {stream.question} {len(before)}")


async def dog(request: ServiceRequest, stream: AgentStream) -> None:
    """Says woof, and may wait."""
    await stream.write("woof ")
    if stream.question == "wait":
        await asyncio.Event().wait()
    await stream.write(stream.question)


def apps(log: StreamLog | None = None, **options: Any) -> list[AgentApp]:
    shared = MemoryStreamLog() if log is None else log
    return [
        AgentApp(agent, agent_id=agent.__name__, log=shared, **{"openai": True, **options})
        for agent in (cat, dog)
    ]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    made = apps(api_keys=KEYS, a2a=True, page=True, metrics=True, metrics_key="m")
    with running(AgentGroup(made)) as server:
        yield server.url


@contextmanager
def client(url: str, key: str = "key-ann") -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=LIMIT) as made:
        yield made


def authorized(key: str = "key-ann") -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def ask(made: openai.OpenAI, model: str, text: str = "hi") -> str | None:
    done = made.chat.completions.create(model=model, messages=[{"role": "user", "content": text}])
    return done.choices[0].message.content


# The models.


def test_the_agents_are_models(url: str) -> None:
    with client(url) as ann:
        assert [model.id for model in ann.models.list()] == ["cat", "dog"]
        assert ann.models.retrieve("dog").id == "dog"
        with pytest.raises(openai.NotFoundError, match="this server has cat, dog") as unknown:
            ann.models.retrieve("cow")
        assert unknown.value.code == "model_not_found"


def test_the_model_of_a_request_answers(url: str) -> None:
    with client(url) as ann:
        assert (ask(ann, "cat"), ask(ann, "dog")) == ("meow hi 0", "woof hi")
        chunks = ann.chat.completions.create(
            model="dog", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        assert "".join(one.choices[0].delta.content or "" for one in chunks) == "woof hi"
        # A large body is read in another thread.
        assert ask(ann, "dog", "x" * 300_000) == "woof " + "x" * 300_000
        with ann.responses.stream(model="cat", input="hi") as stream:
            assert stream.get_final_response().output_text == "meow hi 0"


def test_many_large_bodies_of_one_key_wait_for_memory_and_not_for_each_other(url: str) -> None:
    text = "x" * 3_000_000
    with client(url) as ann, ThreadPoolExecutor(12) as threads:
        asked = [threads.submit(ask, ann, model, text) for model in ("cat", "dog") * 6]
        found = [one.result(LIMIT) for one in asked]
    assert found == [f"meow {text} 0", f"woof {text}"] * 6


@pytest.mark.parametrize(("model", "last"), [("cat", 8), ("dog", 9)])
def test_a_stored_response_is_found_by_its_id(url: str, model: str, last: int) -> None:
    with client(url) as ann:
        made = ann.responses.create(model=model, input="hi")
        found = ann.responses.retrieve(made.id)
        assert (found.model, found.output_text) == (model, made.output_text)
        events = ann.responses.retrieve(made.id, stream=True, starting_after=2)
        assert [event.sequence_number for event in events] == [*range(3, last + 1)]
        [item] = ann.responses.input_items.list(made.id).data
        assert item.to_dict()["content"] == [{"type": "input_text", "text": "hi"}]
        ann.responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            ann.responses.retrieve(made.id)


def test_a_running_response_is_cancelled_where_it_runs(url: str) -> None:
    with client(url) as ann:
        made = ann.responses.create(model="dog", input="wait", background=True)
        assert ann.responses.cancel(made.id).status == "cancelled"
        assert ann.responses.retrieve(made.id).status == "cancelled"


@pytest.mark.parametrize(
    "call",
    [
        lambda made, id_: made.responses.retrieve(id_),
        lambda made, id_: list(made.responses.retrieve(id_, stream=True)),
        lambda made, id_: made.responses.delete(id_),
        lambda made, id_: made.responses.cancel(id_),
        lambda made, id_: made.responses.input_items.list(id_),
        lambda made, id_: made.responses.create(model="dog", input="?", previous_response_id=id_),
    ],
    ids=["retrieve", "stream", "delete", "cancel", "items", "previous"],
)
def test_an_id_of_somebody_else_is_unknown(
    url: str, call: Callable[[openai.OpenAI, str], object]
) -> None:
    bodies = []
    with client(url) as ann, client(url, "key-bob") as bob:
        foreign = ann.responses.create(model="dog", input="hi").id
        for response in (foreign, f"resp_{'0' * 32}", "no-id"):
            with pytest.raises(openai.NotFoundError) as refused:
                call(bob, response)
            bodies.append(refused.value.body)
    assert bodies[1:] == bodies[:2]


def test_a_response_of_one_agent_is_not_continued_by_another(url: str) -> None:
    with client(url) as ann:
        made = ann.responses.create(model="cat", input="hi")
        more = ann.responses.create(model="cat", input="hi", previous_response_id=made.id)
        assert more.output_text == "meow hi 2"
        with pytest.raises(openai.NotFoundError) as refused:
            ann.responses.create(model="dog", input="hi", previous_response_id=made.id)
        assert refused.value.param == "previous_response_id"


@each(
    ("content", "status", "code", "says"),
    [
        (b"{", 400, "invalid_request", "not valid JSON"),
        (b"[]", 400, "invalid_request", "must be a JSON object"),
        (b"{}", 400, "invalid_request", "model must be given: this server has cat, dog."),
        (b'{"model": 3}', 400, "invalid_request", "model must be given"),
        (b'{"model": "cow"}', 404, "model_not_found", "this server has cat, dog."),
        (b'{"model": "cow", "model": "cat"}', 400, "invalid_request", ""),  # the last one counts
        (b'"' + b"x" * 5_000_000 + b'"', 413, "body_too_large", "4194304 bytes"),
        (b"[" + b"1," * 60_000 + b"1]", 413, "body_too_complex", "50000 JSON values"),
    ],
)
def test_what_is_refused_has_the_shape_of_the_api(
    url: str, content: bytes, status: int, code: str, says: str
) -> None:
    headers = {**authorized(), "Content-Type": "application/json"}
    for path in (CHAT, RESPONSES):
        answer = httpx2.post(f"{url}{path}", content=content, headers=headers, timeout=LIMIT)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (status, code)
        assert says in error["message"]


def test_other_refusals_have_the_shape_of_the_api_too(url: str) -> None:
    with httpx2.Client(base_url=url, headers=authorized(), timeout=LIMIT) as http:
        answers = {
            "unsupported_media_type": http.post(CHAT, content="{}"),
            "method_not_allowed": http.delete("/v1/models"),
            "not_found": http.get("/v1/files"),
        }
        assert {name: one.json()["error"]["code"] for name, one in answers.items()} == {
            name: name for name in answers
        }


def exchange(url: str, head: str) -> bytes:
    """Send the head of a request without its body; return the first bytes of the answer."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), LIMIT) as sock:
        sock.sendall(f"{head}Host: localhost\r\nContent-Length: 9\r\n\r\n".encode())
        return sock.recv(65536)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
def test_the_key_is_checked_before_the_body_is_read(path: str) -> None:
    # The server waits a second for a body that nobody wants, and much longer for one it wants.
    with running(AgentGroup(apps(api_keys=["k"], body_timeout=0.1))) as server:
        head = f"POST {path} HTTP/1.1\r\nContent-Type: application/json\r\n"
        for key, status in (("", b"401"), ("Authorization: Bearer k\r\n", b"408")):
            answer = exchange(server.url, head + key)
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert b'{"error":{"message":' in answer


def test_a_key_sees_the_agents_that_know_it() -> None:
    log = MemoryStreamLog()
    group = AgentGroup(
        [
            AgentApp(cat, agent_id="cat", log=log, openai=True, api_keys=["one", "both"]),
            AgentApp(dog, agent_id="dog", log=log, openai=True, api_keys=["two", "both"]),
        ]
    )
    seen = {}
    with running(group) as server:
        for key in ("one", "two", "both"):
            with client(server.url, key) as made:
                seen[key] = [model.id for model in made.models.list()]
        with client(server.url, "two") as made:
            assert ask(made, "dog") == "woof hi"
            with pytest.raises(openai.NotFoundError, match=r"this server has dog\."):
                ask(made, "cat")
        with client(server.url, "three") as made, pytest.raises(openai.AuthenticationError):
            made.models.list()
    assert seen == {"one": ["cat"], "two": ["dog"], "both": ["cat", "dog"]}


def test_only_agents_with_the_api_are_models() -> None:
    log = MemoryStreamLog()
    group = AgentGroup([AgentApp(cat, agent_id="cat", log=log), apps(log)[1]])
    with running(group) as server:
        with client(server.url) as made:
            assert [model.id for model in made.models.list()] == ["dog"]
            assert ask(made, "dog") == "woof hi"
            with pytest.raises(openai.NotFoundError, match="this server has dog"):
                ask(made, "cat")
        with CAPClient(f"{server.url}/cat", "any") as cap:
            assert cap.ask("hi") == "meow hi 0"
    with running(AgentGroup(apps(openai=False))) as server:
        assert httpx2.get(f"{server.url}/v1/models").status_code == 404


def test_pages_of_a_listed_origin_may_ask_all_agents() -> None:
    origin = {"Origin": "http://localhost:5173", "Sec-Fetch-Site": "cross-site"}
    asks = {**origin, "Access-Control-Request-Method": "POST"}
    with (
        running(AgentGroup(apps(cors_origins=["http://localhost:5173"]))) as server,
        httpx2.Client(base_url=server.url, timeout=LIMIT) as http,
    ):
        answers = [
            http.options(CHAT, headers=asks),
            http.post(CHAT, json={"model": "cow"}, headers=origin),
            http.post(RESPONSES, json={"model": "cat", "input": "hi"}, headers=origin),
            http.get("/health", headers=origin),
        ]
        foreign = http.get("/v1/models", headers={**origin, "Origin": "http://evil.example"})
    assert [one.status_code for one in answers] == [200, 404, 200, 200]
    for one in answers:
        assert one.headers["access-control-allow-origin"] == "http://localhost:5173"
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "origin_not_allowed")


# The paths of each agent.


def test_each_agent_is_below_its_id(url: str) -> None:
    for name, says in (("cat", "meow hi 0"), ("dog", "woof hi")):
        with CAPClient(f"{url}/{name}", "key-ann") as cap:
            assert cap.ask("hi") == says
            assert cap.health().agent_id == name
    with httpx2.Client(base_url=url, headers=authorized(), timeout=LIMIT) as http:
        assert "<!doctype html>" in http.get("/dog/").text
        assert http.get("/dog/page/config.json").json()["agent_id"] == "dog"
        assert http.get("/dog/openapi.json").json()["servers"] == [{"url": "/dog"}]
        for path in ("/", "/assist", "/streams/x", "/openapi.json", "/cow/health", "/dogs/health"):
            answer = http.get(path)
            assert answer.status_code == 404, path
            assert "Each agent has its own: /cat, /dog." in answer.json()["detail"]
        assert http.get("/dog%2Fhealth").status_code == 404


def test_an_agent_does_not_know_the_streams_of_another(url: str) -> None:
    with CAPClient(f"{url}/dog", "key-ann") as cap, cap.chat("hi") as answer:
        assert "".join(answer) == "woof hi"
        stream_id = answer.stream_id
    with httpx2.Client(base_url=url, headers=authorized(), timeout=LIMIT) as http:
        assert http.get(f"/dog/streams/{stream_id}").status_code == 200
        for method in ("GET", "DELETE"):
            assert http.request(method, f"/cat/streams/{stream_id}").status_code == 404


def test_conversations_belong_to_their_agent() -> None:
    with running(AgentGroup(apps())) as server, client(server.url) as made:
        texts = [
            made.responses.create(model=model, input="hi", conversation="conv_1").output_text
            for model in ("dog", "cat", "cat")
        ]
    assert texts == ["woof hi", "meow hi 0", "meow hi 2"]


def test_a2a_has_a_card_for_each_agent(url: str) -> None:
    for name, says, describes in (("cat", "meow hi 0", "Says meow."), ("dog", "woof hi", "Says w")):
        card = httpx2.get(f"{url}/{name}/.well-known/agent-card.json").json()
        assert card["description"].startswith(describes)
        urls = {one["url"] for one in card["supportedInterfaces"]}
        assert urls == {f"{url}/{name}/a2a"}
        with A2AClient.connect(f"{url}/{name}", headers=authorized()) as a2a:
            assert a2a.send_message("hi").text == says


# What is about all of them.


def test_health_readiness_and_metrics_are_those_of_all(url: str) -> None:
    with httpx2.Client(base_url=url, timeout=LIMIT) as http:
        health = http.get("/health").json()
        assert health["status"] == "ok"
        assert [one["agent_id"] for one in health["agents"]] == ["cat", "dog"]
        assert http.get("/ready").json() == {"status": "ready"}
        assert http.get("/metrics", headers=authorized()).status_code == 401
        text = http.get("/metrics/", headers=authorized("m")).text
    for name in ("cat", "dog"):
        assert f'coreason_streams_started_total{{agent="{name}"}}' in text
        assert f'coreason_limit_used{{agent="{name}",limit="connections"}}' in text
        assert f'coreason_append_seconds_bucket{{agent="{name}",le="0.0001"}}' in text
    assert text.count("# TYPE coreason_streams_started_total counter") == 1


def test_metrics_are_only_there_if_all_agents_have_them() -> None:
    log = MemoryStreamLog()
    group = AgentGroup([apps(log)[0], apps(log, metrics=True)[1]])
    with running(group) as server:
        assert httpx2.get(f"{server.url}/metrics").status_code == 404
        assert "coreason_streams" in httpx2.get(f"{server.url}/dog/metrics").text


@pytest.mark.parametrize("path", ["/agents/all/dog", "/dog"], ids=["passed on", "removed"])
def test_a_proxy_may_serve_all_of_them_below_a_path(path: str) -> None:
    group = AgentGroup(apps(a2a=True), root_path="/agents/all")
    with running(group) as server:
        base = path.removesuffix("/dog")
        with client(f"{server.url}{base}") as made:
            assert ask(made, "dog") == "woof hi"
        with CAPClient(f"{server.url}{path}", "any") as cap:
            assert cap.ask("hi") == "woof hi"
        card = httpx2.get(f"{server.url}{path}/.well-known/agent-card.json").json()
        assert card["supportedInterfaces"][0]["url"] == f"{server.url}/agents/all/dog/a2a"


def test_a_group_can_be_mounted() -> None:
    group = AgentGroup(apps())
    parent = Starlette(lifespan=group.lifespan, routes=[Mount("/agents", group)])
    with running(parent) as server:
        with client(f"{server.url}/agents") as made:
            assert [model.id for model in made.models.list()] == ["cat", "dog"]
            assert ask(made, "cat") == "meow hi 0"
        with CAPClient(f"{server.url}/agents/dog", "any") as cap:
            assert cap.ask("hi") == "woof hi"


# Arguments.


@each(
    ("changes", "says"),
    [
        ({"agent_id": "cat"}, "agent_id must be another one for each of several agents, got 'cat'"),
        ({"agent_id": "a/b"}, "agent_id must be letters, digits and any of . _ ~ - if there are"),
        ({"agent_id": "hund ä"}, "agent_id must be letters, digits"),
        ({"agent_id": ".."}, "agent_id must be letters, digits"),
        (
            {"agent_id": "v1"},
            "agent_id must not be a part of a path that the server uses, got 'v1'",
        ),
        ({"agent_id": "health"}, "agent_id must not be a part of a path that the server uses"),
        ({"agent_id": "agents"}, "agent_id must not be a part of a path that the server uses"),
        ({"agent_id": "m", "metrics": "/m/x"}, "agent_id must not be a part of a path"),
        ({"log": MemoryStreamLog()}, "log must be the same object for all agents of an AgentGroup"),
        ({"api_keys": ["k"]}, "api_keys must be given to all agents of an AgentGroup, or to none"),
        ({"root_path": "/p"}, "root_path must be given to the AgentGroup instead"),
        ({"body_timeout": 1.0}, "body_timeout must be the same for all agents of an AgentGroup"),
        ({"max_body_bytes": 9}, "max_body_bytes must be the same for all agents of an AgentGroup"),
    ],
)
def test_applications_that_do_not_fit_are_refused(changes: dict[str, Any], says: str) -> None:
    log = MemoryStreamLog()
    first = AgentApp(cat, agent_id="cat", log=log)
    other = AgentApp(dog, **{"agent_id": "dog", "log": log, **changes})
    with pytest.raises(ArgumentError) as refused:
        AgentGroup([first, other], root_path="/agents")
    assert str(refused.value).startswith(says)


def test_other_arguments_are_refused() -> None:
    wrong: list[Any] = [[], [cat]]
    for given in wrong:
        with pytest.raises(ArgumentError, match="apps must have at least one AgentApp"):
            AgentGroup(given)
    with pytest.raises(ArgumentError, match="root_path must be a path such as"):
        AgentGroup(apps(), root_path="p/")


def test_it_is_served_like_an_application() -> None:
    group = AgentGroup(apps())
    assert repr(group) == "<AgentGroup of cat, dog>"
    assert [*group.agents] == ["cat", "dog"]
    assert group.log is group.agents["dog"].log
    assert group.shutdown_timeout == 15
    with pytest.raises(ValueError, match="for an agent without keys"):
        check_host(group, "0.0.0.0")
    with pytest.raises(ArgumentError, match="workers must be 1 with MemoryStreamLog"):
        group.check_workers(2)
    check_host(AgentGroup(apps(api_keys=["k"])), "0.0.0.0")


# Start and stop.


def test_a_start_that_fails_is_reported_and_undone(tmp_path: Path) -> None:
    (tmp_path / "l.db").write_bytes(b"this is not a database, but it is long enough to be one")
    broken = AgentGroup(apps(SQLiteStreamLog(tmp_path / "l.db")))
    with pytest.raises(LogUnavailable, match="cannot be opened"), running(broken):
        pass
    group = AgentGroup(apps())
    with (
        running(group.agents["dog"]),
        pytest.raises(RuntimeError, match="the server did not start"),
        running(group),
    ):
        pass
    with running(group.agents["cat"]) as server, CAPClient(server.url, "any") as cap:
        assert cap.ask("hi") == "meow hi 0"


def test_keys_are_read_again_for_all(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("old ann\n")
    file.chmod(0o600)
    group = AgentGroup(apps(api_keys_file=file))
    file.write_text("new ann\n")
    group.reload_keys()
    with running(group) as server:
        for name in ("cat", "dog"):
            with CAPClient(f"{server.url}/{name}", "new") as cap:
                assert cap.ask("hi")
            with (
                CAPClient(f"{server.url}/{name}", "old") as cap,
                pytest.raises(CAPRuntimeError, match="401"),
            ):
                cap.ask("hi")


DRAINED = """
import asyncio, sys
from pathlib import Path
from coreason_client.server import AgentApp, AgentGroup, MemoryStreamLog, serve

async def agent(request, stream):
    await stream.write("a")
    while not Path(sys.argv[1]).exists():
        await asyncio.sleep(0.01)
    await stream.write("b")

async def other(request, stream):
    await agent(request, stream)

log = MemoryStreamLog()
apps = [AgentApp(one, log=log, agent_id=one.__name__, openai=True) for one in (agent, other)]
serve(AgentGroup(apps), port=0, log_level="info")
"""


def test_a_signal_lets_the_streams_of_all_agents_end(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with Program(DRAINED, go) as program:
        url = program.url()
        first, second = Peer(f"{url}/agent"), Peer(f"{url}/other")
        with first.open() as one, second.open() as two, client(url) as made:
            one.until(1)
            two.until(1)
            chunks = made.chat.completions.create(
                model="other", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            text = [next(chunks), next(chunks)][1].choices[0].delta.content or ""
            program.signal(signal.SIGTERM)
            one.until_raw(b"retry: ")
            assert httpx2.get(f"{url}/ready").json() == {"status": "draining"}
            assert httpx2.get(f"{url}/health").json()["status"] == "maintenance"
            answer = httpx2.post(
                f"{url}{CHAT}",
                json={"model": "other", "messages": [{"role": "user", "content": "?"}]},
            )
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
            go.touch()
            assert (one.rest().text, two.rest().text) == ("ab", "ab")
            text += "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            assert text == "ab"
        first.close()
        second.close()
        assert program.end() == 0


DURABLE = """
import asyncio, sys
from pathlib import Path
from coreason_client.server import AgentApp, AgentGroup, SQLiteStreamLog, running

async def wait():
    while not Path(sys.argv[2]).exists():
        await asyncio.sleep(0.01)

async def one(request, stream):
    await stream.write("one ")
    await stream.step("wait", wait)
    await stream.write("goes on")

async def two(request, stream):
    await stream.write("two ")
    await stream.step("wait", wait)
    await stream.write("goes on too")

log = SQLiteStreamLog(sys.argv[1])
apps = [AgentApp(a, log=log, agent_id=a.__name__, openai=True, durable=True) for a in (one, two)]
with running(AgentGroup(apps)) as server:
    print(server.url, file=sys.stderr, flush=True)
    Path(sys.argv[3]).read_bytes()  # a pipe that nobody writes to
"""


def test_durable_agents_on_one_file_each_continue_their_own_streams(tmp_path: Path) -> None:
    go, pipe = tmp_path / "go", tmp_path / "pipe"
    os.mkfifo(pipe)
    arguments = DURABLE, tmp_path / "log.db", go, pipe
    ids = {}
    with Program(*arguments) as program, client(program.url()) as made:
        for model in ("one", "two"):
            stream = made.responses.create(model=model, input="hi", stream=True)
            for event in stream:
                if event.type == "response.created":
                    ids[model] = event.response.id
                if event.type == "response.output_text.delta":
                    break
        program.signal(signal.SIGKILL)
        program.end()
    go.touch()
    with Program(*arguments) as program, client(program.url()) as made:
        texts = {
            model: [
                event.response.output_text
                for event in made.responses.retrieve(ids[model], stream=True)
                if event.type == "response.completed"
            ]
            for model in ids
        }
    assert texts == {"one": ["one goes on"], "two": ["two goes on too"]}


def test_the_answers_of_models_are_json(url: str) -> None:
    listed = json.loads(httpx2.get(f"{url}/v1/models", headers=authorized()).content)
    assert listed == {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": 0, "owned_by": "coreason"}
            for name in ("cat", "dog")
        ],
    }
