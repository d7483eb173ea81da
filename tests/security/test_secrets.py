"""No key reaches a log line, a printed line, or the words of an error, whatever goes wrong.

Real clients against real servers, every logger at DEBUG, those of the libraries included. One of
the servers is hostile: it repeats each key that it is sent in all it says.
"""

import asyncio
import hmac
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from coreason_client import (
    A2AClient,
    AgentCardResolver,
    AsyncA2AClient,
    AsyncCAPClient,
    CAPClient,
    Secret,
)
from coreason_client._drive import Wait
from coreason_client._http._types import FailureKind, TransportFailure
from coreason_client._http._types import Request as Sent
from coreason_client._secret import redact
from coreason_client.cap._resume import ResumeMachine
from coreason_client.errors import CoreasonError
from coreason_client.llm import AsyncLLMClient
from coreason_client.server import AgentApp, AgentStream, RunningServer, running
from coreason_client.server.http._auth import Keys
from coreason_client.server.http._problems import Problem
from coreason_manifest.definitions.service import ServiceRequest
from tests.http.support import one_answer

KEYS = {
    "server": "sk-server-4f1c9e7ab2",
    "wrong": "sk-wrong-93d0aa17c4",
    "metrics": "sk-metrics-77be01d9f3",
    "header": "sk-header-5e21c8f06b",
    "cookie": "session-aa91b3c05d",
    "marked": "marked-77f0e2d9b1",
    "call": "sk-call-0c9d8e7f6a",
    "llm": "sk-llm-c0ffee12ab34",
    "other llm": "sk-other-llm-0badcafe99",
    "environment": "sk-environment-8844aa1100",
    "a2a": "sk-a2a-1f2e3d4c5b6a",
}
SECRET_HEADERS = {
    "X-Secret": KEYS["header"],
    "Cookie": f"session={KEYS['cookie']}",
    "X-Tenant": Secret(KEYS["marked"]),
}
CALL = {"X-Call-Token": KEYS["call"]}
NOWHERE = "http://127.0.0.1:9"
MESSAGES = [{"role": "user", "content": "hi"}]


class Heard:
    """Everything that was logged, and the words of every error."""

    def __init__(self, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
        self._caplog = caplog
        self._capfd = capfd
        self.errors: list[str] = []

    @contextmanager
    def fails(self) -> Iterator[None]:
        """Let something fail, and keep all that can be printed of it."""
        with pytest.raises((CoreasonError, httpx2.HTTPError)) as caught:
            yield
        self.keep(caught.value)

    def keep(self, error: BaseException) -> None:
        self.errors += traceback.format_exception(error)
        seen: BaseException | None = error
        while seen is not None:
            self.errors += [str(seen), repr(seen), repr(seen.args)]
            self.errors += getattr(seen, "__notes__", [])
            if seen.__cause__ is not None and seen.__context__ not in (None, seen.__cause__):
                self.keep(seen.__context__)
            seen = seen.__cause__ or seen.__context__  # also where it is suppressed

    def leaks(self) -> list[tuple[str, str]]:
        """Return each line that holds a key, with the name of the key."""
        printed = self._capfd.readouterr()
        lines = [*self.lines(), *f"{printed.out}\n{printed.err}".splitlines()]
        assert len(lines) > 3, "nothing was heard, so nothing was shown"
        # The HTTP library says at DEBUG what a server sent, as it was sent.
        ours = [line for line in lines if "receive_response_headers." not in line]
        return [(name, line) for name, key in KEYS.items() for line in ours if key in line]

    def lines(self) -> Iterator[str]:
        formatter = logging.Formatter("%(name)s %(levelname)s %(message)s")
        for record in self._caplog.records:
            yield formatter.format(record)
            if "receive_response_headers." not in record.getMessage():
                yield repr(record.args)
        yield from self.errors


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Heard:
    """Listen to all loggers, and to what is printed."""
    caplog.set_level(logging.DEBUG)
    names = ("coreason_client", "httpx2", "httpcore2", "uvicorn", "uvicorn.error", "aiohttp")
    for name in names:
        caplog.set_level(logging.DEBUG, name)
    return Heard(caplog, capfd)


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    assert request.payload.messages is not None
    if request.payload.messages[-1].text == "fail":
        raise RuntimeError("the agent fails")
    await stream.write("hello")


@pytest.fixture
def server() -> Iterator[RunningServer]:
    app = AgentApp(
        agent,
        api_keys={KEYS["server"]: "ann"},
        metrics=True,
        metrics_key=KEYS["metrics"],
        drain_timeout=0.0,
    )
    with running(app, log_level="debug", log_config=None) as server:
        yield server


async def _repeat(request: Request) -> Response:
    """Repeat the credentials of a request in the manner that its path asks for."""
    names = ("authorization", "x-api-key", "x-goog-api-key", "api-key", *SECRET_HEADERS, *CALL)
    said = " ".join(request.headers.get(name, "") for name in names)
    body = {"error": {"message": f"bad key {said}", "code": said, "type": said}, "detail": said}
    manner = request.path_params["manner"]
    if manner == "stream":

        async def events() -> AsyncIterator[bytes]:
            yield f"id: {said}\nevent: {said}\ndata: {said}\n\n".encode()
            yield f'data: {{"error": {{"message": "{said}"}}}}\n\n'.encode()

        return StreamingResponse(events(), media_type="text/event-stream")
    if manner == "page":
        return Response(f"<html>{said}</html>", 200, media_type="text/html")
    if manner == "words":
        return Response(said, 500)
    if manner == "moved":
        return Response(said, 307, {"location": f"http://127.0.0.1:9/?was={said.split()[-1]}"})
    return JSONResponse(body, int(manner))


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    methods = ["GET", "POST", "DELETE"]
    routes = [Route("/{manner}/{rest:path}", _repeat, methods=methods)]
    with running(Starlette(routes=routes)) as server:
        yield server.url


MANNERS = (
    "200",
    "400",
    "401",
    "403",
    "404",
    "429",
    "500",
    "words",
    "page",
    "stream",
    "moved",
)


def test_the_clients_and_the_server_among_themselves(heard: Heard, server: RunningServer) -> None:
    headers = {"X-Secret": KEYS["header"]}
    with CAPClient(server.url, KEYS["server"], headers=headers) as client:
        assert "hello" in "".join(str(packet) for packet in client.chat("hi"))
        assert client.health().status == "ok"
        with heard.fails():
            list(client.chat("fail"))
        heard.errors.append(f"{client!r} {client!s}")
    for url, key in ((server.url, KEYS["wrong"]), (NOWHERE, KEYS["server"])):
        with CAPClient(url, key, max_retries=0, headers=headers) as client, heard.fails():
            list(client.chat("hi"))

    async def main() -> None:
        async with AsyncCAPClient(server.url, KEYS["wrong"], headers=headers) as client:
            heard.errors.append(repr(client))
            with heard.fails():
                async for _ in client.chat("hi"):
                    pass

    asyncio.run(main())
    for key in (KEYS["metrics"], KEYS["wrong"], KEYS["server"]):
        answer = httpx2.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {key}"})
        heard.errors.append(answer.text)
        assert answer.status_code == (200 if key == KEYS["metrics"] else 401)
    assert heard.leaks() == []


@pytest.mark.parametrize("manner", MANNERS)
def test_cap_and_a2a_against_a_server_that_repeats_keys(
    heard: Heard, hostile: str, manner: str
) -> None:
    url = f"{hostile}/{manner}"
    with CAPClient(url, KEYS["server"], max_retries=0, headers=SECRET_HEADERS) as client:
        with heard.fails():
            list(client.chat("hi", headers=CALL))
        with heard.fails():
            client.health(headers=CALL)
        if manner not in ("200", "page", "stream"):  # with which a cancel succeeds
            with heard.fails():
                client.cancel("00000000-0000-0000-0000-000000000001", headers=CALL)
    in_headers = {"Authorization": f"Bearer {KEYS['a2a']}", **SECRET_HEADERS}
    choices: list[Any] = [{"auth": KEYS["a2a"], "headers": SECRET_HEADERS}, {"headers": in_headers}]
    for options in choices:
        with A2AClient(url, max_retries=0, **options) as agent_client:
            heard.errors.append(repr(agent_client))
            with heard.fails():
                agent_client.send_message("hi")
            with heard.fails():
                list(agent_client.send_message_stream("hi"))
    with AgentCardResolver(headers=in_headers) as resolver, heard.fails():
        resolver.resolve(url)
    assert heard.leaks() == []


@pytest.mark.parametrize("manner", MANNERS)
def test_async_cap_and_a2a_against_a_server_that_repeats_keys(
    heard: Heard, hostile: str, manner: str
) -> None:
    url = f"{hostile}/{manner}"

    async def token() -> str:
        return KEYS["a2a"]

    async def main() -> None:
        async with AsyncCAPClient(
            url, KEYS["server"], max_retries=0, headers=SECRET_HEADERS
        ) as client:
            with heard.fails():
                async for _ in client.chat("hi", headers=CALL):
                    pass
            with heard.fails():
                await client.health(headers=CALL)
        async with AsyncA2AClient(
            url, max_retries=0, auth=token, headers=SECRET_HEADERS
        ) as agent_client:
            with heard.fails():
                await agent_client.send_message("hi")
            with heard.fails():
                async for _ in agent_client.send_message_stream("hi"):
                    pass

    asyncio.run(main())
    assert heard.leaks() == []


def test_what_an_http_library_cannot_read_is_not_repeated(heard: Heard) -> None:
    """The libraries put the bytes that they refuse into their errors, the causes of ours."""
    unreadable = " ".join(["HTTP/1.1 what", *KEYS.values()]).encode() + b"\r\n\r\n"
    headers = {f"X-{name.replace(' ', '-')}-Key": key for name, key in KEYS.items()}
    calls: list[Callable[[str], object]] = [
        lambda url: list(CAPClient(url, KEYS["server"], max_retries=0, headers=headers).chat("hi")),
        lambda url: CAPClient(url, KEYS["server"], max_retries=0, headers=headers).health(),
        lambda url: A2AClient(url, max_retries=0, headers=headers).send_message("hi"),
        lambda url: list(A2AClient(url, max_retries=0, headers=headers).send_message_stream("hi")),
        lambda url: AgentCardResolver(headers=headers, max_retries=0).resolve(url),
        lambda url: asyncio.run(_generate(url, headers)),
    ]
    for call in calls:
        with one_answer(unreadable) as (url, _), heard.fails():
            call(url)
    assert any("***" in error for error in heard.errors)
    assert heard.leaks() == []


def test_log_lines_about_lost_connections_show_no_secret(heard: Heard, hostile: str) -> None:
    options: Any = {"auth": KEYS["a2a"], "headers": SECRET_HEADERS}
    with A2AClient(f"{hostile}/503", max_retries=1, **options) as client, heard.fails():
        list(client.resubscribe("task-1"))

    def redacted(text: str) -> str:
        return redact(text, KEYS.values())

    machine = ResumeMachine(lambda _: Sent("POST", NOWHERE, {}), max_retries=1, redact=redacted)
    for _ in range(2):
        assert isinstance(machine.next_step(), Sent)
        lost = TransportFailure(FailureKind.BROKEN, f"illegal line {KEYS['server']}")
        if machine.reconnects:
            with heard.fails():
                machine.lost(lost)
        else:
            machine.lost(lost)
            assert isinstance(machine.next_step(), Wait)
    assert sum("lost" in line and "***" in line for line in heard.lines()) >= 2
    assert heard.leaks() == []


async def _generate(url: str, headers: dict[str, str]) -> None:
    async with AsyncLLMClient(KEYS["llm"], url, max_retries=0, headers=headers) as client:
        await client.generate(MESSAGES, "m")


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "ollama"])
def test_the_ai_client_against_a_server_that_repeats_keys(
    heard: Heard, hostile: str, provider: str, manner: str
) -> None:
    async def main() -> None:
        async with AsyncLLMClient(
            KEYS["llm"],
            f"{hostile}/{manner}",
            provider=provider,
            keys={"mistral": KEYS["other llm"]},
            headers=SECRET_HEADERS,
            max_retries=1,
            first_wait=0.001,
            timeout=5,
        ) as client:
            heard.errors.append(f"{client!r} {client!s}")
            with heard.fails():
                await client.generate(MESSAGES, "m")
            with heard.fails():
                async with client.stream(MESSAGES, "m") as stream:
                    heard.errors.append(repr(stream))
                    async for _ in stream:
                        pass

    asyncio.run(main())
    assert heard.leaks() == []


def test_the_ai_client_from_the_environment(
    heard: Heard, hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_API_KEY", KEYS["environment"])
    monkeypatch.setenv("LLM_API_BASE_URL", f"{hostile}/401")

    async def main() -> None:
        async with AsyncLLMClient.from_env(max_retries=0) as client:
            heard.errors.append(repr(client))
            with heard.fails():
                await client.generate(MESSAGES, "m")
        async with AsyncLLMClient.from_env(base_url=NOWHERE, max_retries=0) as client:
            with heard.fails():
                await client.generate(MESSAGES, "m")

    asyncio.run(main())
    assert heard.leaks() == []


# How keys are compared


@pytest.mark.proves("RES2-12b")
@pytest.mark.parametrize("given", ["Bearer a-key", "Bearer A-KEY", "Bearer ", "", "Basic a-key"])
def test_keys_are_compared_by_the_function_that_takes_constant_time(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """No equality of texts decides: with a comparison that always says no, no key is known."""
    calls: list[tuple[bytes, bytes]] = []

    def never(one: bytes, other: bytes) -> bool:
        calls.append((one, other))
        return False

    keys = Keys(["a-key", "another"])
    monkeypatch.setattr(hmac, "compare_digest", never)
    with pytest.raises(Problem):
        keys.principal(given)
    assert len(calls) == 2
    assert all(len(one) == len(other) == 32 for one, other in calls)
    assert b"a-key" not in b"".join(one + other for one, other in calls)
