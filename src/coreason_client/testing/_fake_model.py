"""A fake provider of models on loopback, which speaks every wire format of the AI client."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import parse_qs, unquote

from ..errors import ArgumentError
from ..llm.providers.profiles import COMPATIBLE, PROFILES
from ._block import LoopbackBlock, report
from ._loopback import HTTPRequest, LoopbackServer, ResponseWriter
from ._models._anthropic_wire import ANTHROPIC
from ._models._batches import FakeBatches
from ._models._bedrock_wire import BEDROCK
from ._models._chat_wire import CHAT
from ._models._gemini_wire import GEMINI
from ._models._ollama_wire import OLLAMA
from ._models._responses_wire import RESPONSES
from ._models._turns import ModelFailure, ModelRequest, ModelTurn, ModelTurnLike, turn_of
from ._models._vectors import embeddings_reply, model_list_reply
from ._models._wire import Chunk, Wire, WireTurn, before_break, dumped, script_of
from ._secret_names import HiddenHeaders

_KEY = "sk-of-the-fake-model"
_MODEL = "fake-model"
_JSON = ("content-type", "application/json")
_EXHAUSTED = ("error", "repeat", "allow")
_PROFILES = {profile.name: profile for profile in (*PROFILES, COMPATIBLE)}
# Paths that a base URL must have, because no provider has them by default.
_PATHS = {"vertex": "/v1/projects/fake-project/locations/global"}


def fake_model(
    turns: "ModelTurnLike | Sequence[ModelTurnLike]",
    *,
    exhausted: Literal["error", "repeat", "allow"] = "error",
    require_all: bool = False,
    models: Sequence[str] = (_MODEL,),
    batch_polls: int = 0,
) -> "FakeModel":
    """Return a fake provider of models; it serves while it is used with `with` or `async with`.

    It answers with the turns, one for each request. The path of a request shows its wire format:
    OpenAI's chat completions and Responses API, Anthropic, Gemini and Vertex, Ollama, Bedrock.
    Requests for embeddings and for the list of models use up no turn. A stream of the Responses API
    that was requested with `background` can be resumed after any event; only its first reader sees
    that it breaks off. Each request of a batch uses up a turn when the batch is submitted. Files
    are stored, and the count of tokens is the number of words.

    Args:
        turns: what it answers: text, a `ModelTurn`, a `ModelFailure`, or a function of the
            `ModelRequest` that returns one of them; or a sequence of these.
        exhausted: what happens if there are more requests than turns. "error": the request gets a
            400 and the end of the block raises an AssertionError; "allow": only the 400; "repeat":
            the last turn is used again.
        require_all: True to raise an AssertionError at the end of the block if turns are left.
        models: the list of models.
        batch_polls: how often a batch is still running when a client asks for it.

    Raises:
        ArgumentError: a turn or an option is not valid.
    """
    return FakeModel(
        turns, exhausted=exhausted, require_all=require_all, models=models, batch_polls=batch_polls
    )


class FakeModel(LoopbackBlock):
    """A fake provider of models; see `fake_model`.

    Attributes:
        requests: the requests for an answer, in their order.
    """

    def __init__(
        self,
        turns: "ModelTurnLike | Sequence[ModelTurnLike]",
        *,
        exhausted: Literal["error", "repeat", "allow"] = "error",
        require_all: bool = False,
        models: Sequence[str] = (_MODEL,),
        batch_polls: int = 0,
    ) -> None:
        super().__init__("the fake model", "with fake_model(...) as model:")
        self._turns = _checked_turns(turns)
        if exhausted not in _EXHAUSTED:
            rule = f"must be one of {', '.join(_EXHAUSTED)}"
            raise ArgumentError("exhausted", rule, exhausted)
        self._exhausted = exhausted
        self._require_all = require_all
        self._models = tuple(models)
        self._used = 0
        self._calls = 0
        self._problems: list[str] = []
        self._stored: dict[str, tuple[Wire, ModelTurn, WireTurn]] = {}  # background responses
        self._batches = FakeBatches(self._batched, batch_polls)
        self.requests: list[ModelRequest] = []

    def __repr__(self) -> str:
        where = "not started" if self._server is None else self._server.url
        return f"<FakeModel {where}: {self._used} of {len(self._turns)} turns used>"

    # How to reach it.

    @property
    def url(self) -> str:
        """The URL without a path.

        Raises:
            RuntimeError: the fake model is used outside its block.
        """
        return self._origin

    def options(self, provider: str = "openai") -> dict[str, Any]:
        """Return the arguments of an `LLMClient` that uses it as this provider.

        Raises:
            ArgumentError: there is no such provider.
        """
        self._profile(provider)
        base_url = self.url + _PATHS.get(provider, "")
        arguments = {"api_key": _KEY, "base_url": base_url, "provider": provider}
        return {**arguments, "default_model": _MODEL}

    def environment(self, provider: str = "openai") -> dict[str, str]:
        """Return the environment variables with which a program uses it as this provider.

        They are those of `generate` and `LLMClient.from_env`, with `DEFAULT_MODEL`, and for
        "openai" and "anthropic" also those of the provider's own library.

        Raises:
            ArgumentError: there is no such provider.
        """
        profile = self._profile(provider)
        variables = {
            "LLM_API_KEY": _KEY,
            "LLM_API_BASE_URL": self.url + (_PATHS.get(provider) or profile.path),
            # A second API of a provider has the prefix of the first one, which would choose that.
            "DEFAULT_MODEL": _MODEL if profile.prefix else f"{provider}/{_MODEL}",
        }
        if provider == "openai":
            variables |= {"OPENAI_API_KEY": _KEY, "OPENAI_BASE_URL": f"{self.url}/v1"}
        if provider == "anthropic":
            variables |= {"ANTHROPIC_API_KEY": _KEY, "ANTHROPIC_BASE_URL": self.url}
        return variables

    @staticmethod
    def _profile(provider: str) -> Any:
        if provider not in _PROFILES:
            rule = f"must be one of {', '.join(_PROFILES)}"
            raise ArgumentError("provider", rule, provider)
        return _PROFILES[provider]

    # The block.

    def _finish(self, server: LoopbackServer, error: BaseException | None) -> None:
        problems = [*self._problems, *self._left(), *map(_failed, server.errors)]
        report(problems, error)

    def _left(self) -> list[str]:
        left = len(self._turns) - self._used
        if not self._require_all or left <= 0:
            return []
        return [f"{left} of {len(self._turns)} turns were not used"]

    # Requests.

    async def _handle(self, request: HTTPRequest, response: ResponseWriter) -> None:
        path = request.path
        if (wire := wire_at(request.method, path)) is not None:
            await self._answer(wire, request, response)
        elif (sent := self._batches.handle(request, self.url)) is not None:
            await response.whole(sent[0], sent[1].items(), sent[2])
        elif (stored := background_at(request.method, path)) is not None:
            await self._background(*stored, request, response)
        elif (kind := embeddings_at(request.method, path)) is not None:
            await response.whole(200, [_JSON], dumped(embeddings_reply(kind, path, request.json)))
        elif (kind := model_list_at(request.method, path)) is not None:
            await response.whole(200, [_JSON], dumped(model_list_reply(kind, self._models)))
        else:
            message = f"the fake model has no {request.method} {path}"
            self._problems.append(message)
            await response.whole(404, [_JSON], dumped({"error": {"message": message}}))

    async def _answer(self, wire: Wire, request: HTTPRequest, response: ResponseWriter) -> None:
        turn, asked = self._received(wire, request.path, request, request.json)
        if isinstance(turn, ModelFailure):
            await _refuse(wire, turn, response)
            return
        script = self._script(turn, asked)
        if asked.json.get("background") is True:
            self._stored[str(wire.body(script)["id"])] = wire, turn, script
            if not asked.stream:
                queued = {**wire.body(script), "status": "queued", "output": [], "usage": None}
                await response.whole(200, [_JSON], dumped(queued))
                return
        await (_send_stream if asked.stream else _send_whole)(wire, turn, script, response)

    def _received(
        self, wire: Wire, path: str, request: HTTPRequest, body: dict[str, Any]
    ) -> tuple[ModelTurn | ModelFailure, ModelRequest]:
        """Record a request for an answer, and return its turn, or the error that is all of it."""
        asked = wire.read(path, body)
        received = ModelRequest(
            wire=wire.name,
            model=asked.model,
            stream=asked.stream,
            messages=asked.messages,
            tools=asked.tools,
            path=unquote(path) if wire.name in ("gemini", "bedrock") else path,
            headers=HiddenHeaders(request.headers),
            json=body,
        )
        self.requests.append(received)
        turn = self._next(received)
        if isinstance(turn, ModelTurn) and turn.failure is not None and not asked.stream:
            return turn.failure, received
        return turn, received

    def _script(self, turn: ModelTurn, asked: ModelRequest) -> WireTurn:
        script = script_of(turn, asked.json, asked.model, len(self.requests), self._calls + 1)
        self._calls += len(script.calls)
        return script

    def _batched(
        self, wire: Wire, path: str, body: dict[str, Any], request: HTTPRequest
    ) -> tuple[int, Mapping[str, Any]]:
        """Return the status and the body of the answer to a request of a batch."""
        turn, asked = self._received(wire, path, request, body)
        if isinstance(turn, ModelFailure):
            return turn.status, wire.error(turn)
        return 200, wire.body(self._script(turn, asked))

    async def _background(
        self, what: str, id_: str, request: HTTPRequest, response: ResponseWriter
    ) -> None:
        """Send a background response again: as a stream after an event, or as a whole."""
        if id_ not in self._stored:
            message = {"error": {"message": f"there is no response {id_}", "type": "not_found"}}
            await response.whole(404, [_JSON], dumped(message))
            return
        wire, turn, script = self._stored[id_]
        query = parse_qs(request.target.partition("?")[2])
        if what == "cancel":
            body = {**wire.body(script), "status": "cancelled"}
            await response.whole(200, [_JSON], dumped(body))
        elif query.get("stream") == ["true"]:
            # The answer broke off only for the first reader.
            whole = replace(turn, disconnect_after=None, end_after=None, stall_after=None)
            first = int(query.get("starting_after", ["-1"])[0]) + 1
            await _send_stream(wire, whole, script, response, first)
        else:
            await response.whole(200, [_JSON], dumped(wire.body(script)))

    def _next(self, request: ModelRequest) -> ModelTurn | ModelFailure:
        number = self._used
        if number >= len(self._turns):
            if self._exhausted != "repeat" or not self._turns:
                return self._no_turn()
            number = len(self._turns) - 1
        else:
            self._used += 1
        given = self._turns[number]
        return turn_of(given(request) if callable(given) else given, f"turns[{number}]")

    def _no_turn(self) -> ModelFailure:
        message = (
            f"the fake model has no turn for request {len(self.requests)}: it was given "
            f"{len(self._turns)}"
        )
        if self._exhausted == "error":
            self._problems.append(message)
        return ModelFailure(400, message, "no_turn_left")


def _checked_turns(given: Any) -> tuple[Any, ...]:
    single = isinstance(given, str | ModelTurn | ModelFailure) or callable(given)
    if not single and not isinstance(given, Sequence):
        raise ArgumentError("turns", "must be a turn or a sequence of turns", given)
    turns = (given,) if single else tuple(given)
    for number, turn in enumerate(turns):
        if not callable(turn):
            turn_of(turn, f"turns[{number}]")
    return turns


def _failed(error: Exception) -> str:
    return f"a request failed in the fake model: {type(error).__name__}: {error}"


# Responses.


async def _send_whole(
    wire: Wire, turn: ModelTurn, script: WireTurn, response: ResponseWriter
) -> None:
    body = dumped(wire.body(script))
    if turn.stall_after is not None:
        await response.until_disconnected()
    elif turn.break_after == 0:
        return  # not a byte
    elif turn.break_after is not None:
        # A body that is cut off has no other end: both ways to break are the same.
        await response.broken(200, [_JSON], body[: len(body) // 2])
    else:
        await response.whole(200, [_JSON], body)


async def _send_stream(
    wire: Wire, turn: ModelTurn, script: WireTurn, response: ResponseWriter, first: int = 0
) -> None:
    """Send the events of an answer, from the number `first` on."""
    await response.start(200, [("content-type", wire.content_type), ("cache-control", "no-cache")])
    for chunk in _sent(wire, turn, script)[first:]:
        await response.send(chunk.data)
    if turn.failure is not None:
        await response.send(wire.error_event(turn.failure))
    if turn.stall_after is not None:
        await response.until_disconnected()
    elif turn.disconnect_after is None:
        await response.finish()


def _sent(wire: Wire, turn: ModelTurn, script: WireTurn) -> Sequence[Chunk]:
    chunks = wire.stream(script)
    after = "content" if turn.failure is not None else turn.break_after
    return [*(chunks if after is None else before_break(chunks, after))]


async def _refuse(wire: Wire, failure: ModelFailure, response: ResponseWriter) -> None:
    sent = {**dict([_JSON]), **wire.error_headers(failure), **failure.headers}
    if failure.retry_after is not None:
        sent["retry-after"] = f"{failure.retry_after:g}"
    await response.whole(failure.status, sent.items(), dumped(wire.error(failure)))


# Routes: which API a request is for, by its path.

_WIRES = (
    (re.compile(r"/chat/completions$"), CHAT),
    (re.compile(r"/responses$"), RESPONSES),
    (re.compile(r"/messages$|/models/claude-[^/]+:(?:streamR|r)awPredict$"), ANTHROPIC),
    (re.compile(r":(?:streamG|g)enerateContent$"), GEMINI),
    (re.compile(r"/model/[^/]+/converse(?:-stream)?$"), BEDROCK),
    (re.compile(r"/api/chat$"), OLLAMA),
)
_BACKGROUND = (
    ("GET", re.compile(r"/responses/([^/]+)$"), "read"),
    ("POST", re.compile(r"/responses/([^/]+)/cancel$"), "cancel"),
)
_EMBEDDINGS = (
    (re.compile(r"/embeddings$"), "openai"),
    (re.compile(r":batchEmbedContents$"), "gemini"),
    (re.compile(r":(?:predict|embedContent)$"), "vertex"),
    (re.compile(r"/v2/embed$"), "cohere"),
    (re.compile(r"/api/embed$"), "ollama"),
    (re.compile(r"/model/[^/]+/invoke$"), "bedrock"),
)
_LISTS = (
    (re.compile(r"/v1beta/models$"), "gemini"),
    (re.compile(r"/models$"), "openai"),
    (re.compile(r"/api/tags$"), "ollama"),
    (re.compile(r"/foundation-models$"), "bedrock"),
)


def wire_at(method: str, path: str) -> Wire | None:
    """Return the wire of a request for an answer, None if it is for something else."""
    found = (wire for pattern, wire in _WIRES if pattern.search(path))
    return next(found, None) if method == "POST" else None


def background_at(method: str, path: str) -> tuple[str, str] | None:
    """Return "read" or "cancel" and the id of a background response, None for other requests."""
    for known, pattern, what in _BACKGROUND:
        if method == known and (found := pattern.search(path)):
            return what, found[1]
    return None


def embeddings_at(method: str, path: str) -> str | None:
    """Return the format of a request for embeddings, None if it is for something else."""
    found = (name for pattern, name in _EMBEDDINGS if pattern.search(path))
    return next(found, None) if method == "POST" else None


def model_list_at(method: str, path: str) -> str | None:
    """Return the format of a request for the list of models, None if it is for something else."""
    found = (name for pattern, name in _LISTS if pattern.search(path))
    return next(found, None) if method == "GET" else None
