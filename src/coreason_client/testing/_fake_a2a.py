"""`fake_a2a`: an A2A agent that plays scripts, on the real server of the package."""

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import parse_qsl, unquote

from coreason_manifest.definitions.service import ServiceRequest

from ..a2a._dialects import V03, V10, Dialect
from ..a2a._v03._rest import V03_REST
from ._block import BlockInThread, report
from ._loopback import HTTPRequest, LoopbackServer, ResponseWriter
from ._recording._file import End
from ._recording._upstream import Unreachable, Upstream
from ._script import Script, as_player
from ._secret_names import HiddenHeaders

# After the module that reports a missing extra.
from ..server import A2A, AgentApp, AgentStream, RunningServer, running  # isort: skip
from ._received import packet_of, split_events  # isort: skip

if TYPE_CHECKING:
    from ..a2a.types import AgentCard

Binding = Literal["JSONRPC", "HTTP+JSON"]

_CARD = re.compile(r"/\.well-known/agent(?:-card)?\.json$")
_PREFIX = re.compile(r"^/a2a(?=/)")


@dataclass(frozen=True, slots=True)
class A2ARequest:
    """A request as the fake agent has read it.

    Attributes:
        operation: the method of `A2AClient`, such as "send_message_stream" or "get_task";
            "get_card" for the card, "" for a request that belongs to no operation.
        binding: "JSONRPC" or "HTTP+JSON".
        version: the version of the protocol, "1.0" or "0.3".
        params: the parameters, as they were sent.
        path: the path of the request.
        headers: the headers by name in lower case; the representation has no credentials.
    """

    operation: str
    binding: Binding
    version: str
    params: dict[str, Any]
    path: str
    headers: HiddenHeaders = field(repr=False)

    @property
    def text(self) -> str:
        """The text of the message, empty if the request has none."""
        message = self.params.get("message")
        if not isinstance(message, dict):
            return ""
        parts = message.get("parts") or message.get("content")  # the latter in HTTP+JSON of 0.3
        found = parts if isinstance(parts, list) else []
        return "".join(str(part.get("text", "")) for part in found if isinstance(part, dict))


def request_of(request: HTTPRequest) -> A2ARequest:
    """Read a request; what is not A2A has no operation."""
    headers = HiddenHeaders(request.headers)
    version = headers.get("a2a-version") or "0.3"
    dialect = V03 if version.startswith("0") else V10
    body = request.json
    is_rpc = "jsonrpc" in body
    if is_rpc:
        operation = _named(dialect.methods).get(str(body.get("method")), "")
        params = _as_object(body.get("params"))
    else:
        operation, params = _rest_operation(dialect, request, body)
    return A2ARequest(
        operation=operation,
        binding="JSONRPC" if is_rpc else "HTTP+JSON",
        version=dialect.version,
        params=params,
        path=request.path,
        headers=headers,
    )


def _rest_operation(
    dialect: Dialect, request: HTTPRequest, body: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    if _CARD.search(request.path):
        return "get_card", {}
    path = _PREFIX.sub("", request.path)
    query = dict(parse_qsl(request.target.partition("?")[2], keep_blank_values=True))
    rest = V03_REST if dialect is V03 else dialect
    for name, (method, template) in rest.paths.items():
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", template)
        match = re.fullmatch(pattern, path)
        if match is not None and method == request.method:
            found = {key: unquote(value) for key, value in match.groupdict().items()}
            return name, {**query, **found, **body}
    return "", {**query, **body}


def _named(methods: Mapping[str, str]) -> dict[str, str]:
    return {method: operation for operation, method in methods.items()}


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# A test must not wait for an agent that its client has left.
_QUICK_END = {"drain_timeout": 0.1, "cancel_grace": 1.0}


def fake_a2a(
    *scripts: Script,
    card: "AgentCard | None" = None,
    versions: Sequence[str] = ("1.0", "0.3"),
    **options: Any,
) -> "FakeA2A":
    """Return an A2A agent that answers each message with the next script, as a context manager.

    It is the real server with a log in memory, over JSON-RPC and HTTP+JSON: tasks can be read,
    cancelled and subscribed to, and a client that loses its connection can continue.

        with fake_a2a([ask("Which city?")], ["Sunny in ", disconnect(), "Bonn"]) as agent:
            with A2AClient.connect(agent.url) as client: ...

    Args:
        scripts: a script for each message; the last one answers all further messages. A script is
            an item or several: text, `artifact(…)`, `status(…)`, `ask(…)`, `message(…)`,
            `reject(…)`, `fail(…)`, `delay(…)`, `disconnect()`, or an agent such as
            `async def agent(request, stream)`.
        card: describes the agent.
        versions: the versions of the protocol.
        options: options of `AgentApp`, such as `api_keys`.

    Raises:
        TypeError: an item cannot be in a script.
        MissingExtraError: the extra `server` is not installed.
    """
    return FakeA2A(*scripts, card=card, versions=versions, **options)


class FakeA2A(BlockInThread):
    """An A2A agent that plays scripts; see `fake_a2a`."""

    def __init__(
        self,
        *scripts: Script,
        card: "AgentCard | None" = None,
        versions: Sequence[str] = ("1.0", "0.3"),
        **options: Any,
    ) -> None:
        if not scripts:
            raise TypeError("fake_a2a needs a script: fake_a2a(['Hello ', 'world'])")
        self._players = [as_player(script, number) for number, script in enumerate(scripts, 1)]
        self._settings = A2A(card=card, versions=tuple(versions))
        self._options = _QUICK_END | options
        self._answered = 0
        self._lock = threading.Lock()
        self._cuts: dict[str, list[int]] = {}  # planned, by conversation
        self._requests: list[A2ARequest] = []
        self._disconnects = 0
        self._front: LoopbackServer | None = None
        self._running: AbstractContextManager[RunningServer] | None = None
        self._upstream: Upstream | None = None

    def __repr__(self) -> str:
        where = "no port" if self._front is None else self._front.url
        return f"<FakeA2A at {where}: {len(self.requests)} requests>"

    @property
    def url(self) -> str:
        """The URL for a client; the card is below it.

        Raises:
            RuntimeError: the agent is not being served.
        """
        if self._front is None:
            raise RuntimeError("the fake agent has no URL yet: use `with fake_a2a(…) as agent:`")
        return self._front.url

    @property
    def requests(self) -> list[A2ARequest]:
        """The requests so far, with those for the card."""
        with self._lock:
            return list(self._requests)

    @property
    def disconnects(self) -> int:
        """The connections that were ended by `disconnect()` so far."""
        return self._disconnects

    # The block.

    def __enter__(self) -> Self:
        """Serve the agent on a free port."""
        if self._front is not None:
            raise RuntimeError("the fake agent is already being served")
        front = LoopbackServer(self._handle, "coreason-fake-a2a")
        try:
            app = AgentApp(self._answer, a2a=self._settings, public_url=front.url, **self._options)
            context = running(app)
            self._upstream = Upstream(context.__enter__().url)
        except BaseException:
            front.stop()
            raise
        self._front, self._running = front, context
        front.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Stop serving."""
        front, self._front = self._front, None
        context, self._running = self._running, None
        if front is None or context is None:
            return
        front.stop()
        context.__exit__(None, None, None)
        report([f"the fake agent failed: {problem!r}" for problem in front.errors], error)

    # The agent.

    async def _answer(self, request: ServiceRequest, stream: AgentStream) -> None:
        """Plays a script."""
        number, self._answered = self._answered, self._answered + 1
        await self._players[min(number, len(self._players) - 1)](request, stream, self._cut)

    def _cut(self, stream: AgentStream) -> None:
        """Plan to end the connection before the next event; every script has one, its end."""
        with self._lock:
            plans = self._cuts.setdefault(stream.request.context.session_id, [])
            plans.append(stream._writer.last_seq)

    # Its connections.

    async def _handle(self, request: HTTPRequest, response: ResponseWriter) -> None:
        with self._lock:
            self._requests.append(request_of(request))
        assert self._upstream is not None  # noqa: S101 - for the type checker
        try:
            await self._upstream.forward(request, response, _Passing(self))
        except Unreachable as error:
            raise RuntimeError(str(error)) from None

    def events_before_cut(self, events: list[bytes]) -> int | None:
        """Return how many of these events are sent before a planned cut; None for no cut."""
        with self._lock:
            for place, event in enumerate(events):
                number = packet_of(event)
                for conversation, plans in self._cuts.items():
                    if number is None or not plans or conversation.encode() not in event:
                        continue
                    if number > plans[0]:
                        del plans[0]
                        self._disconnects += 1
                        return place
        return None


class _Passing:
    """Passes a response on to the client, and cuts it off as planned."""

    def __init__(self, agent: FakeA2A) -> None:
        self._agent = agent
        self._streams = False

    def begins(self, status: int, headers: tuple[tuple[str, str], ...], *, chunked: bool) -> None:
        self._streams = dict(headers).get("content-type", "").startswith("text/event-stream")

    def passes(self, data: bytes) -> tuple[bytes, bool]:
        if not self._streams:
            return data, True
        events = split_events(data)
        kept = self._agent.events_before_cut(events)
        return (data, True) if kept is None else (b"".join(events[:kept]), False)

    def ends(self, end: End) -> None:
        pass
