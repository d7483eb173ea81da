"""Makes things fail, and returns the messages that a user would see, for the page of messages."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from coreason_client import (
    A2AClient,
    AgentCard,
    Bookmark,
    CAPClient,
    LLMClient,
    MissingExtraError,
    Position,
    ServiceRequest,
    ToolAbort,
)
from coreason_client._valkey_address import parse_address
from coreason_client.a2a import ClientCredentials, read_push
from coreason_client.llm import Budget
from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.server.log.postgres import _errors as postgres
from coreason_client.server.log.remote._command_queue import PatienceExceeded
from coreason_client.server.log.valkey import _errors as valkey
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.session import SessionContext
from tests.a2a.serving import serving
from tests.cli.command import coreason_here
from tests.faults import FaultServer
from tests.llm.server import Received, Replied, ServerInThread
from tests.ports import free_port

from .model_service import KEY, model_service

__all__ = ["messages"]

QUESTION = [{"role": "user", "content": "Say hello."}]
STATUSES = (400, 401, 403, 404, 429, 500)


def messages() -> list[str]:
    """Return the messages of all failures."""
    return [*_cap(), *_cap_faults(), *_a2a(), *_models(), *_arguments(), *_commands()]


def _message(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any of them
        return f"{type(error).__name__}: {error}"
    raise AssertionError("nothing was raised")


def _asked(url: str, key: str = "k", **options: Any) -> str:
    with CAPClient(url, key, **options) as client:
        return _message(lambda: client.ask("x"))


def _request() -> ServiceRequest:
    return ServiceRequest(
        context=SessionContext(user_id="me", session_id="s"),
        payload=AgentRequest(messages=[ChatMessage.user("Hello")]),
    )


async def _agent(request: ServiceRequest, stream: AgentStream) -> None:
    if stream.question == "raise":
        raise RuntimeError("on purpose")
    await stream.write("Hello")
    if stream.question == "reject":
        await stream.reject("I do not paint pink.")
    elif stream.question == "wait":
        await asyncio.sleep(30)


def _cap() -> Iterator[str]:
    nowhere = f"http://127.0.0.1:{free_port()}"
    yield _asked(nowhere, max_retries=0)
    with CAPClient(nowhere, "k") as client:
        yield _message(client.health)
    app = AgentApp(_agent, api_keys=["right"], drain_timeout=0.1, cancel_grace=0.1)
    with running(app) as server, CAPClient(server.url, "right") as client:
        yield _asked(server.url, "wrong")
        yield _asked(f"{server.url}/nothing", "right")
        yield _message(lambda: client.ask("raise"))
        yield _message(lambda: client.ask("reject"))
        yield _message(lambda: client.ask("wait", deadline=0.2))
        with client.chat("wait") as stream:
            next(stream)
        yield _message(lambda: next(stream))
        yield from _resumes(client, stream.bookmark())
        client.close()
        yield _message(lambda: client.ask("x"))


def _resumes(client: CAPClient, begun: Bookmark) -> Iterator[str]:
    """Resume with another request, a stream that does not exist, and one that was cancelled."""
    assert begun.position is not None
    another = Bookmark(request=_request(), position=begun.position)
    unknown = Position(stream_id=begun.request.request_id, seq=1)
    gone = Bookmark(request=begun.request, position=unknown)
    for bookmark in (another, gone):
        with client.resume(bookmark) as packets:
            yield _message(lambda: next(packets))
    client.cancel(begun.position.stream_id)
    yield _message(lambda: list(client.resume(begun)))


def _cap_faults() -> Iterator[str]:
    # Those that end the first connection: no reconnects, which would take time.
    names = ("html_first", "bad_json", "huge_event", "status_first", "redirect_loop")
    with FaultServer() as faults:
        for name in names:
            yield _asked(faults.run(name).base_url, max_event_bytes=100_000)


async def _page(request: Request) -> Response:
    return HTMLResponse("<p>Hello</p>")


async def _no_token(request: Request) -> Response:
    return JSONResponse({"error": "invalid_client"}, status_code=401)


async def _nothing(request: Request) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": (await request.json())["id"], "result": None})


def _a2a() -> Iterator[str]:
    nowhere = f"http://127.0.0.1:{free_port()}"
    yield _message(lambda: A2AClient.connect(nowhere, max_retries=0))
    routes = [
        Route(path, answer, methods=["POST"])
        for path, answer in (("/page", _page), ("/token", _no_token), ("/nothing", _nothing))
    ]
    app = AgentApp(_agent, a2a=True, drain_timeout=0.1)
    with running(app) as server, serving(Starlette(routes=routes)) as other:
        yield _message(lambda: A2AClient.connect(other))
        with A2AClient.connect(server.url) as agent:
            yield _message(lambda: agent.get_task("no-such-task"))
        for path in ("page", "nothing"):
            with A2AClient(f"{other}/{path}") as agent:
                yield _message(lambda: agent.send_message("x"))
        with A2AClient(f"{other}/page", max_body_bytes=5) as agent:
            yield _message(lambda: agent.send_message("x"))
        login = ClientCredentials(f"{other}/token", "me", "secret")
        with A2AClient(f"{server.url}/a2a", auth=login) as agent:
            yield _message(lambda: agent.send_message("x"))
    card = AgentCard(name="Painter", description="Paints.", version="1")
    yield _message(lambda: A2AClient.from_agent_card(card))
    yield _message(lambda: read_push({"content-type": "application/json"}, b"{}", token="t"))


def _models() -> Iterator[str]:
    answer = model_service()

    def reply(received: Received) -> Replied:
        return Replied(silent=True) if b'"silent"' in received.body else answer(received)

    with ServerInThread() as provider, ExitStack() as stack:
        provider.reply = reply
        url = f"{provider.url}/v1"
        client = stack.enter_context(LLMClient(KEY, url, max_retries=0, timeout=0.3))
        for model in ("silent", *(f"status-{status}" for status in STATUSES)):
            yield _message(lambda: client.generate(QUESTION, model))  # noqa: B023
        broken = client.stream([{"role": "user", "content": "Break off."}], "gpt-4o")
        yield _message(lambda: list(broken.text()))
        yield _message(lambda: client.generate([], "gpt-4o"))
        poor = stack.enter_context(LLMClient(KEY, url, budgets=Budget(0.000001)))
        yield _message(lambda: poor.generate(QUESTION, "gpt-4o"))
        yield _message(lambda: poor.generate(QUESTION, "unheard-of"))
        yield from _runs(client)
        a2a = stack.enter_context(A2AClient(f"{url}?silent", timeout=0.2))
        yield _message(lambda: a2a.send_message("silent"))
    yield _message(lambda: client.generate(QUESTION, "gpt-4o"))
    with LLMClient(KEY, f"http://127.0.0.1:{free_port()}/v1", max_retries=0) as lost:
        yield _message(lambda: lost.generate(QUESTION, "gpt-4o"))
    with LLMClient() as keyless:
        yield _message(lambda: keyless.generate(QUESTION, "openai/gpt-4o"))


def _runs(client: LLMClient) -> Iterator[str]:
    question = [{"role": "user", "content": "Weather in Rome?"}]

    def weather(city: str) -> str:
        """Return the weather."""
        return city

    def broken(city: str) -> str:
        """Return the weather."""
        raise ValueError("no weather")

    def stopped(city: str) -> str:
        """Return the weather."""
        raise ToolAbort("the user said stop")

    def run(tool: Callable[[str], str]) -> str:
        return client.run(question, "gpt-4o", [tool], max_turns=1, max_tool_errors=1).text

    for tool in (weather, broken, stopped):
        tool.__name__ = "weather"
        yield _message(partial(run, tool))


def _arguments() -> Iterator[str]:
    yield _message(lambda: CAPClient("https://agent.example", "k", max_retries=-1))
    yield _message(lambda: next(SSEDecoder(10).events(b"data: " + b"x" * 20 + b"\n\n")))
    yield _message(lambda: AgentApp(_agent, durable=True))
    yield str(MissingExtraError("a SOCKS proxy", "socks"))
    silent = PatienceExceeded(sent=True, blocked=0.0, error=OSError("connection refused"))
    yield str(valkey.unreachable(parse_address("valkey://127.0.0.1"), 10.0, silent))
    database = postgres.parse_address("postgresql://127.0.0.1/agents")
    yield str(postgres.unreachable(database, 10.0, silent))


def _commands() -> Iterator[str]:
    for arguments in (
        ("no_such_module:agent",),
        ("--host", "0.0.0.0"),
        ("--store", "server.log"),
        ("--durable",),
    ):
        yield coreason_here("serve", *arguments).stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        yield coreason_here("serve", "--port", port).stderr
    nowhere = f"postgresql://127.0.0.1:{free_port()}/agents"
    yield coreason_here("store", "upgrade", nowhere).stderr
