"""Options of one call, hooks around calls, required extensions, and a cancel that is repeated."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, get_type_hints

import httpx2
import pytest

from coreason_client._retry import Backoff
from coreason_client.a2a import (
    A2AClient,
    A2AConnectionError,
    A2AHTTPError,
    A2AJSONError,
    A2AJSONRPCError,
    A2AStreamClosedError,
    A2ATimeoutError,
    AgentCardResolver,
    AsyncA2AClient,
    CallInfo,
    CallOptions,
    EventStream,
    ExtensionSupportRequiredError,
    Message,
    SendMessageConfiguration,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskState,
    _options,
)
from coreason_client.a2a import _client_base as _polling
from tests.a2a.loopback import CUT, HANG, Agent, Answer, Seen, as_json, serve, stream_of

WAYS = pytest.mark.parametrize("way", ["sync", "async"])
CLIENTS = pytest.mark.parametrize("kind", [A2AClient, AsyncA2AClient])


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serve() as agent:
        yield agent


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_options, "Backoff", lambda **given: Backoff(0.01, 0.02, **given))
    monkeypatch.setattr(_polling, "Backoff", lambda: Backoff(0.001, 0.002))


def using(way: str, agent: Agent, use: Callable[[Any], Any], **options: Any) -> Any:
    """Do something with a client: `use` returns a value, an awaitable, or a stream to read."""
    url = f"{agent.url}/rpc"
    if way == "sync":
        with A2AClient(url, **options) as client:
            found = use(client)
            return list(found) if isinstance(found, Iterator) else found

    async def main() -> Any:
        async with AsyncA2AClient(url, **options) as client:
            found = use(client)
            if isinstance(found, Awaitable):
                return await found
            return [event async for event in found]

    return asyncio.run(main(), debug=True)


CALLS: dict[str, Callable[..., Any]] = {
    "send_message": lambda c, **o: c.send_message("say", **o),
    "send_message_with_config": lambda c, **o: c.send_message_with_config(
        "say", SendMessageConfiguration(), **o
    ),
    "send_message_stream": lambda c, **o: c.send_message_stream("say", **o),
    "get_task": lambda c, **o: c.get_task("t", **o),
    "cancel_task": lambda c, **o: c.cancel_task("t", **o),
    "resubscribe": lambda c, **o: c.resubscribe("t", **o),
    "wait_for_task": lambda c, **o: c.wait_for_task("t", **o),
    "list_tasks": lambda c, **o: c.list_tasks(**o),
    "iter_tasks": lambda c, **o: c.iter_tasks(**o),
    "create_push_config": lambda c, **o: c.create_push_config("t", "https://hook.example", **o),
    "get_push_config": lambda c, **o: c.get_push_config("t", "p", **o),
    "list_push_configs": lambda c, **o: c.list_push_configs("t", **o),
    "delete_push_config": lambda c, **o: c.delete_push_config("t", "p", **o),
    "get_extended_card": lambda c, **o: c.get_extended_card(**o),
}
NOT_CALLS = {"close", "aclose", "connect", "from_agent_card", "with_transport"}


def prepared(agent: Agent) -> None:
    """Let every call of the table succeed."""
    done = {"state": "TASK_STATE_INPUT_REQUIRED"}
    agent.tasks["t"] = {"id": "t", "contextId": "c", "status": done}
    agent.pushes["p"] = {"taskId": "t", "id": "p", "url": "https://hook.example"}


# Options of a call.


@CLIENTS
def test_the_table_has_every_call(kind: type) -> None:
    public = {name for name in vars(kind) if not name.startswith("_")}
    assert public - NOT_CALLS == set(CALLS)


@WAYS
@pytest.mark.parametrize("name", CALLS)
def test_every_call_takes_headers(agent: Agent, way: str, name: str) -> None:
    prepared(agent)
    own = {"X-Team": "blue", "X-Other": "yes"}
    one = {"x-team": "red", "X-One": "1"}
    using(way, agent, lambda c: CALLS[name](c, headers=one), headers=own)
    assert agent.seen
    for seen in agent.seen:
        found = {key: seen.headers.get(key) for key in ("x-team", "x-one", "x-other")}
        assert found == {"x-team": "red", "x-one": "1", "x-other": "yes"}
        assert seen.headers["a2a-version"] == "1.0"


@WAYS
@pytest.mark.parametrize("name", CALLS)
def test_every_call_takes_a_timeout(agent: Agent, way: str, name: str) -> None:
    seen_limits: list[Any] = []

    def note(request: Any) -> None:
        seen_limits.append(round(request.extensions["timeout"]["read"], 1))

    prepared(agent)
    limit = httpx2.Timeout(7.0, connect=3.0)
    if way == "sync":
        with httpx2.Client(event_hooks={"request": [note]}) as own:
            using(way, agent, lambda c: CALLS[name](c, timeout=limit), http_client=own)
    else:

        async def note_async(request: Any) -> None:
            note(request)

        async def main() -> None:
            hooks: Any = {"request": [note_async]}
            async with (
                httpx2.AsyncClient(event_hooks=hooks) as own,
                AsyncA2AClient(f"{agent.url}/rpc", http_client=own) as client,
            ):
                found = CALLS[name](client, timeout=limit)
                if inspect.isawaitable(found):
                    await found
                else:
                    _ = [event async for event in found]

        asyncio.run(main())
    assert seen_limits
    assert set(seen_limits) == {7.0}


@WAYS
def test_the_timeout_of_a_call_is_its_own(agent: Agent, way: str) -> None:
    prepared(agent)
    agent.rules.append(lambda seen: Answer(200, pieces=[HANG]))
    with pytest.raises(A2ATimeoutError):
        using(way, agent, lambda c: c.get_task("t", timeout=0.05), max_retries=0)
    with pytest.raises(A2AStreamClosedError):
        agent.rules[:] = [lambda seen: stream_of([HANG])]
        using(way, agent, lambda c: c.send_message_stream("say", timeout=0.05), max_retries=0)


@WAYS
@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ({"timeout": -1}, ValueError),
        ({"timeout": "soon"}, TypeError),
        ({"headers": {"X Y": "z"}}, ValueError),
        ({"headers": {"X": "a\nb"}}, ValueError),
        ({"retries": 3}, TypeError),
    ],
)
def test_options_that_cannot_work_are_refused_before_anything_is_sent(
    agent: Agent, way: str, bad: dict[str, Any], kind: type[Exception]
) -> None:
    for call in ("get_task", "send_message_stream"):
        with pytest.raises(kind):
            using(way, agent, partial(CALLS[call], **bad))
    assert agent.seen == []


@WAYS
def test_metadata_goes_with_the_request(agent: Agent, way: str) -> None:
    prepared(agent)
    for name in ("send_message", "send_message_with_config", "send_message_stream", "cancel_task"):
        using(way, agent, partial(CALLS[name], metadata={"trace": 7}))
    assert [seen.json["params"]["metadata"] for seen in agent.seen] == [{"trace": 7}] * 4


def test_a_transport_of_the_callers_own_gets_only_what_was_given() -> None:
    seen: list[Any] = []

    class Plain:
        def get_task(self, request: Any) -> Any:
            seen.append(request.id)
            raise TaskNotFoundError("no")

        def send_message(self, request: Any, *, timeout: float | None = None) -> Message:
            seen.append(timeout)
            return Message.user("x")

    own: Any = Plain()
    with A2AClient.with_transport(own) as client:
        with pytest.raises(TaskNotFoundError):
            client.get_task("t")
        client.send_message("x")
        client.send_message("x", timeout=3)
    assert seen == ["t", None, 3]


def test_the_names_of_the_options_are_public() -> None:
    assert set(get_type_hints(CallOptions)) == {"timeout", "headers"}


# Hooks.


class Log:
    """Records what hooks see."""

    def __init__(self) -> None:
        self.before: list[CallInfo] = []
        self.after: list[CallInfo] = []

    def on_request(self, call: CallInfo) -> None:
        assert (call.duration, call.error, call.result) == (None, None, None)
        call.state["number"] = len(self.before)
        call.headers["X-Call"] = f"{call.operation}-{len(self.before)}"
        self.before.append(call)

    def on_response(self, call: CallInfo) -> None:
        assert call.state["number"] == len(self.after)
        assert call.duration is not None
        assert call.duration >= 0
        self.after.append(call)

    @property
    def options(self) -> dict[str, Any]:
        return {"on_request": self.on_request, "on_response": self.on_response}


@WAYS
@pytest.mark.parametrize("name", CALLS)
def test_every_call_is_seen_and_can_be_given_headers(agent: Agent, way: str, name: str) -> None:
    prepared(agent)
    log = Log()
    using(way, agent, CALLS[name], **log.options)
    assert log.before == log.after
    operations = {"send_message_with_config": "send_message", "iter_tasks": "list_tasks"}
    operations["wait_for_task"] = "resubscribe"
    assert log.before[0].operation == operations.get(name, name)
    assert agent.seen[0].headers["x-call"] == f"{log.before[0].operation}-0"
    assert all(call.error is None for call in log.after)


@WAYS
def test_results_and_errors_are_seen(agent: Agent, way: str) -> None:
    log = Log()
    answer = using(way, agent, lambda c: c.send_message("say"), **log.options)
    with pytest.raises(TaskNotFoundError) as caught:
        using(way, agent, lambda c: c.get_task("nobody"), **log.options)
    sent, got = log.after
    assert sent.result is answer
    assert sent.params["message"]["parts"] == [{"text": "say"}]
    assert (got.result, got.error) == (None, caught.value)
    assert "say" not in repr(sent)


@WAYS
def test_a_hook_does_not_change_what_is_sent_or_returned(agent: Agent, way: str) -> None:
    def change(call: CallInfo) -> None:
        call.params["message"]["parts"][0]["text"] = "count"

    def lose(call: CallInfo) -> None:
        call.result = None

    answer = using(way, agent, CALLS["send_message"], on_request=change, on_response=lose)
    assert answer.text == "Said."


@WAYS
def test_attempts_belong_to_one_call(agent: Agent, way: str) -> None:
    prepared(agent)
    answers = iter([Answer(503), Answer(503)])
    agent.rules.append(lambda seen: next(answers, None))
    log = Log()
    using(way, agent, lambda c: c.get_task("t"), **log.options)
    assert [seen.headers["x-call"] for seen in agent.seen] == ["get_task-0"] * 3
    assert len(log.after) == 1


@WAYS
def test_a_stream_is_one_call_until_it_ends(agent: Agent, way: str) -> None:
    """Also over a lost connection: the requests that heal it carry the headers too."""
    status = {"state": "TASK_STATE_WORKING"}
    first = {"task": {"id": "t", "contextId": "c", "status": status}}

    def cut(seen: Seen) -> Answer | None:
        if len(agent.seen) > 1:
            return None
        prepared(agent)
        return stream_of([{"jsonrpc": "2.0", "id": seen.json["id"], "result": first}, CUT])

    agent.rules.append(cut)
    log = Log()
    using(way, agent, lambda c: c.send_message_stream("count"), **log.options)
    [call] = log.after
    assert (call.operation, call.error, call.result) == ("send_message_stream", None, None)
    assert {seen.headers["x-call"] for seen in agent.seen} == {"send_message_stream-0"}
    assert len(agent.seen) == 2


@WAYS
def test_a_stream_that_fails_and_one_that_is_left(agent: Agent, way: str) -> None:
    log = Log()
    agent.rules.append(lambda seen: Answer(400, body=b"{}"))
    with pytest.raises(A2AHTTPError) as caught:
        using(way, agent, CALLS["send_message_stream"], **log.options)
    assert log.after[0].error is caught.value
    agent.rules.clear()

    def leave(client: Any) -> Any:
        stream = client.send_message_stream("count")
        assert len(log.before) == 1  # the hook runs when the stream is first read

        if isinstance(stream, EventStream):
            next(stream)
            stream.close()
            return None

        async def read() -> None:
            await anext(stream)
            await stream.aclose()

        return read()

    using(way, agent, leave, **log.options)
    assert len(log.before) == len(log.after) == 2
    assert log.after[1].error is None
    assert log.after[1].duration is not None


@WAYS
def test_what_a_hook_raises(agent: Agent, way: str, caplog: pytest.LogCaptureFixture) -> None:
    def veto(call: CallInfo) -> None:
        raise PermissionError(call.operation)

    for name in ("send_message", "send_message_stream"):
        with pytest.raises(PermissionError, match=name):
            using(way, agent, CALLS[name], on_request=veto)
    assert agent.seen == []
    assert using(way, agent, CALLS["send_message"], on_response=veto).text == "Said."
    assert "on_response failed for send_message" in caplog.text


@WAYS
def test_errors_are_seen_without_secrets(agent: Agent, way: str) -> None:
    words: list[str] = []

    def note(call: CallInfo) -> None:
        words.append(str(call.error))

    agent.rules.append(lambda seen: as_json({"error": "bad tell-no-one"}, 400))
    for name in ("send_message", "send_message_stream"):
        with pytest.raises(A2AHTTPError):
            using(way, agent, CALLS[name], auth="tell-no-one", on_response=note)
        assert words.pop().endswith("bad ***")


def test_an_error_loses_the_secrets_of_its_own_call_while_another_call_runs(agent: Agent) -> None:
    with A2AClient(f"{agent.url}/rpc", max_retries=0) as client:

        def quote(seen: Seen) -> Answer:
            key = seen.headers["x-api-key"]
            if key == "first-secret":  # the second call begins and ends within the first
                with pytest.raises(A2AHTTPError, match=r"bad \*\*\*$"):
                    client.get_task("t", headers={"X-Api-Key": "second-secret"})
            return as_json({"error": f"bad {key}"}, 400)

        agent.rules.append(quote)
        with pytest.raises(A2AHTTPError, match=r"bad \*\*\*$"):
            client.get_task("t", headers={"X-Api-Key": "first-secret"})
    assert len(agent.seen) == 2


@WAYS
@pytest.mark.parametrize("name", ["send_message", "send_message_stream"])
def test_an_error_may_not_quote_the_token_that_was_replaced(
    agent: Agent, way: str, name: str
) -> None:
    tokens = iter(["token-one", "token-two"])
    agent.rules.append(lambda seen: as_json({"error": "not token-one, not token-two"}, 401))
    with pytest.raises(A2AHTTPError, match=r"not \*\*\*, not \*\*\*$"):
        using(way, agent, CALLS[name], auth=lambda: next(tokens))
    assert len(agent.seen) == 2


@CLIENTS
def test_hooks_are_checked_when_the_client_is_created(kind: Any) -> None:
    for name in ("on_request", "on_response"):
        with pytest.raises(TypeError, match=f"{name} must be a function"):
            kind("http://127.0.0.1:9", **{name: "hook"})


# Required extensions.

URI, OPTIONAL = "https://x.example/must", "https://x.example/may"


@WAYS
def test_a_required_extension_must_be_declared(agent: Agent, way: str) -> None:
    extensions = [{"uri": URI, "required": True}, {"uri": OPTIONAL}]
    agent.card_extra = {"capabilities": {"extensions": extensions}}
    with AgentCardResolver() as resolver:
        card = resolver.resolve(agent.url)
    del agent.seen[:]
    kind: Any = A2AClient if way == "sync" else AsyncA2AClient
    with pytest.raises(ExtensionSupportRequiredError) as caught:
        kind.from_agent_card(card, extensions=[OPTIONAL])
    assert caught.value.data == {"extensions": [URI]}
    assert f"pass extensions=['{URI}']" in str(caught.value)
    assert agent.seen == []

    def say(client: Any) -> Any:
        return client.send_message("say")

    if way == "sync":
        with A2AClient.from_agent_card(card, extensions=[URI]) as client:
            say(client)
    else:

        async def main() -> None:
            async with AsyncA2AClient.from_agent_card(card, extensions=[URI]) as client:
                await say(client)

        asyncio.run(main())
    assert agent.seen[0].headers["a2a-extensions"] == URI


# A cancel whose answer was lost.


def losing_the_first(agent: Agent, then: str) -> None:
    """Cancel the task, lose the answer, and refuse the next cancel as agents do."""

    def rule(seen: Seen) -> Answer | None:
        if seen.json["method"] != "CancelTask":
            return None
        if sum(s.json["method"] == "CancelTask" for s in agent.seen) == 1:
            agent.tasks["t"]["status"] = {"state": then}
            return Answer(200, {"content-type": "application/json"}, pieces=[CUT])
        error = {"code": -32002, "message": "cannot be cancelled"}
        return as_json({"jsonrpc": "2.0", "id": seen.json["id"], "error": error})

    agent.rules.append(rule)


@WAYS
def test_a_cancel_that_did_its_work_is_a_success(agent: Agent, way: str) -> None:
    prepared(agent)
    losing_the_first(agent, "TASK_STATE_CANCELED")
    task = using(way, agent, lambda c: c.cancel_task("t"))
    assert task.status.state is TaskState.CANCELED
    methods = [seen.json["method"] for seen in agent.seen]
    assert methods == ["CancelTask", "CancelTask", "GetTask"]


@WAYS
def test_a_cancel_that_came_too_late_is_still_refused(agent: Agent, way: str) -> None:
    prepared(agent)
    losing_the_first(agent, "TASK_STATE_COMPLETED")
    with pytest.raises(TaskNotCancelableError):
        using(way, agent, lambda c: c.cancel_task("t"))
    del agent.rules[:]
    agent.tasks["t"]["status"] = {"state": "TASK_STATE_CANCELED"}
    agent.rules.append(
        lambda seen: as_json(
            {"jsonrpc": "2.0", "id": seen.json["id"], "error": {"code": -32002, "message": "no"}}
        )
    )
    before = len(agent.seen)
    with pytest.raises(TaskNotCancelableError):  # refused at once: nothing was lost
        using(way, agent, lambda c: c.cancel_task("t"))
    assert len(agent.seen) == before + 1


@WAYS
def test_the_refusal_is_raised_when_the_task_cannot_be_fetched(agent: Agent, way: str) -> None:
    prepared(agent)
    losing_the_first(agent, "TASK_STATE_CANCELED")
    agent.rules.append(lambda seen: Answer(403) if seen.json["method"] == "GetTask" else None)
    with pytest.raises(TaskNotCancelableError):
        using(way, agent, lambda c: c.cancel_task("t"))


# Answers that are nearly right.


@WAYS
@pytest.mark.parametrize(("spelled", "right"), [(str, True), (int, True), (float, False)])
def test_the_id_of_an_answer_may_be_written_in_digits(
    agent: Agent, way: str, spelled: Any, right: bool
) -> None:
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Said."}]}

    def rule(seen: Seen) -> Answer:
        number = spelled(seen.json["id"])
        return as_json({"jsonrpc": "2.0", "id": number, "result": {"message": said}})

    agent.rules.append(rule)
    if right:
        assert using(way, agent, CALLS["send_message"]).text == "Said."
    else:
        with pytest.raises(A2AJSONError, match=r"its id must be 1, got 1\.0"):
            using(way, agent, CALLS["send_message"])


@WAYS
def test_an_error_may_be_a_string(agent: Agent, way: str) -> None:
    agent.rules.append(
        lambda seen: as_json({"jsonrpc": "2.0", "id": seen.json["id"], "error": "out of paper"})
    )
    with pytest.raises(A2AJSONRPCError) as caught:
        using(way, agent, CALLS["send_message"])
    assert (caught.value.message, caught.value.code) == ("out of paper", 0)


@WAYS
def test_an_error_of_a_refusal_may_be_a_string(agent: Agent, way: str) -> None:
    agent.rules.append(lambda seen: as_json({"error": "out of paper"}, 402))
    with pytest.raises(A2AHTTPError, match="HTTP 402: out of paper"):
        using(way, agent, CALLS["send_message"])


# Arguments.


@pytest.mark.parametrize("odd", [None, 7, b"http://agent.example"])
@CLIENTS
def test_an_address_that_is_no_string_is_refused(kind: Any, odd: Any) -> None:
    with pytest.raises(TypeError, match=r"url must be a string, got \w+"):
        kind(odd)
    with pytest.raises(TypeError, match=r"url must be a string, got \w+"):
        found = kind.connect(odd)
        asyncio.run(found)


@CLIENTS
def test_connecting_refuses_bad_options_before_anything_is_sent(agent: Agent, kind: Any) -> None:
    for bad in ({"max_retries": -1}, {"max_retries": True}, {"typo": 1}, {"headers": {"a b": "c"}},
                {"http_client": object()}):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            found = kind.connect(agent.url, **bad)
            asyncio.run(found)
    assert agent.seen == []


@WAYS
def test_calls_with_options_share_what_the_client_learns(agent: Agent, way: str) -> None:
    """The dialect that one call finds out is that of the next, whatever their options."""
    agent.versions = {"0.3"}
    if way == "sync":
        with A2AClient(f"{agent.url}/rpc") as client:
            client.send_message("say", timeout=5)
            client.send_message("say", headers={"X-One": "1"})
    else:

        async def main() -> None:
            async with AsyncA2AClient(f"{agent.url}/rpc") as client:
                await client.send_message("say", timeout=5)
                await client.send_message("say", headers={"X-One": "1"})

        asyncio.run(main())
    methods = [seen.json["method"] for seen in agent.seen]
    assert methods == ["SendMessage", "message/send", "message/send"]


def test_options_of_a_call_do_not_leak_into_another_thread(agent: Agent) -> None:
    with A2AClient(f"{agent.url}/rpc") as client:
        numbers = [str(number) for number in range(16)]
        threads = [
            threading.Thread(target=client.send_message, args=(n,), kwargs={"headers": {"X-N": n}})
            for n in numbers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    found = {s.json["params"]["message"]["parts"][0]["text"]: s.headers["x-n"] for s in agent.seen}
    assert found == {n: n for n in numbers}


def test_nobody_there_is_still_a_connection_error() -> None:
    with (
        A2AClient("http://127.0.0.1:9", max_retries=0) as client,
        pytest.raises(A2AConnectionError),
    ):
        client.get_task("t", timeout=1, headers={"X-One": "1"})
