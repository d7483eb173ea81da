"""The flows of client methods that take several calls, and the two shells that run them."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._drive import Wait
from coreason_client._retry import Backoff
from coreason_client.a2a import A2AClient, AsyncA2AClient
from coreason_client.a2a import _client_base as _polling
from coreason_client.a2a._client_base import (
    CallFlow,
    ClientCall,
    Pages,
    ReadTask,
    all_push_configs,
    finished_task,
)
from coreason_client.a2a._streams_async import run_calls_async
from coreason_client.a2a._streams_sync import run_calls
from coreason_client.a2a.errors import (
    A2AConnectionError,
    A2AError,
    MethodNotFoundError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from coreason_client.a2a.types import Task, TaskPushNotificationConfig, TaskState, TaskStatus


def task(state: TaskState) -> Task:
    return Task(id="t", context_id="c", status=TaskStatus(state=state))


WORKING, DONE = task(TaskState.WORKING), task(TaskState.COMPLETED)
ASKING = task(TaskState.INPUT_REQUIRED)
READ, GET = ReadTask("t"), ClientCall("get_task", "t")


def played(flow: CallFlow[Any], results: Iterable[Any]) -> tuple[list[Any], Any]:
    """Run a flow with these results of its calls; return its steps, and its value or its error."""
    steps: list[Any] = []
    left = iter(results)
    try:
        step = next(flow)
        while True:
            steps.append("wait" if isinstance(step, Wait) else step)
            if isinstance(step, Wait):
                step = flow.send(None)
                continue
            result = next(left)
            step = flow.throw(result) if isinstance(result, A2AError) else flow.send(result)
    except StopIteration as done:
        return steps, done.value
    except A2AError as error:
        return steps, error


@pytest.mark.parametrize(
    ("results", "steps", "expected"),
    [
        ([DONE], [READ], DONE),
        ([ASKING], [READ], ASKING),
        ([None, DONE], [READ, GET], DONE),
        ([WORKING, WORKING, ASKING], [READ, GET, "wait", GET], ASKING),
        ([UnsupportedOperationError("no"), DONE], [READ, GET], DONE),
        (
            [MethodNotFoundError("no"), WORKING, WORKING, DONE],
            [READ, GET, "wait", GET, "wait", GET],
            DONE,
        ),
    ],
)
def test_a_task_is_subscribed_to_and_else_polled(
    results: list[Any], steps: list[Any], expected: Task
) -> None:
    assert played(finished_task("t"), results) == (steps, expected)


@pytest.mark.parametrize("results", [[], [None], [UnsupportedOperationError("no"), WORKING]])
def test_any_other_error_ends_the_wait_for_a_task(results: list[Any]) -> None:
    error = TaskNotFoundError("gone")
    assert played(finished_task("t"), [*results, error])[1] is error


def test_the_waits_between_polls_are_bounded() -> None:
    flow = finished_task("t")
    next(flow)
    assert flow.send(None) == GET
    for _ in range(5):
        wait = flow.send(WORKING)
        assert isinstance(wait, Wait)
        assert 0 <= wait.seconds < 60
        assert flow.send(None) == GET


@pytest.mark.parametrize(
    ("tokens", "fetched"),
    [
        ([None], [None]),
        ([""], [None]),
        (["a", None], [None, "a"]),
        (["a", "b", ""], [None, "a", "b"]),
        (["a", "a"], [None, "a"]),  # the page names itself as the next one
    ],
)
def test_pages_are_fetched_until_the_last(
    tokens: list[str | None], fetched: list[str | None]
) -> None:
    pages, asked = Pages(), []
    for token in tokens:
        assert not pages.done
        asked.append(pages.token)
        pages.received(token)
    assert pages.done
    assert asked == fetched


@given(st.lists(st.lists(st.integers(0, 99), max_size=3), min_size=1, max_size=6))
def test_the_push_configs_of_all_pages_come_in_order(numbers: list[list[int]]) -> None:
    configs = [
        [TaskPushNotificationConfig(id=str(n), url="http://a/") for n in page] for page in numbers
    ]
    tokens = [*map(str, range(1, len(configs))), None]
    answers = [
        SimpleNamespace(configs=page, next_page_token=token)
        for page, token in zip(configs, tokens, strict=True)
    ]
    steps, found = played(all_push_configs("t"), answers)
    assert found == [config for page in configs for config in page]
    assert [step.method for step in steps] == ["list_push_configs"] * len(configs)
    assert [step.argument.page_token for step in steps] == [None, *tokens[:-1]]
    assert {step.argument.task_id for step in steps} == {"t"}


# The shells


class Target:
    """A client whose calls return or raise these answers, one after the other."""

    def __init__(self, *answers: Task | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, str, dict[str, Any]]] = []

    def answer(self, method: str, task_id: str, options: dict[str, Any]) -> Task:
        self.calls.append((method, task_id, options))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class SyncTarget(Target):
    def resubscribe(self, task_id: str, **options: Any) -> Any:
        return self.answer("resubscribe", task_id, options)

    def get_task(self, task_id: str, **options: Any) -> Task:
        return self.answer("get_task", task_id, options)


class AsyncTarget(Target):
    def resubscribe(self, task_id: str, **options: Any) -> Any:
        return self.answer("resubscribe", task_id, options)

    async def get_task(self, task_id: str, **options: Any) -> Task:
        return self.answer("get_task", task_id, options)


def run_on(way: str, *answers: Task | Exception) -> tuple[Any, Target, list[float]]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    flow = finished_task("t")
    target: Target
    if way == "sync":
        target = SyncTarget(*answers)
        try:
            return run_calls(flow, target, slept.append, {"timeout": 3.0}), target, slept
        except A2AError as error:
            return error, target, slept
    target = AsyncTarget(*answers)
    try:
        done = asyncio.run(run_calls_async(flow, target, sleep, {"timeout": 3.0}))
    except A2AError as error:
        return error, target, slept
    return done, target, slept


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_shell_makes_the_calls_with_the_options_and_waits_between(way: str) -> None:
    answers = (UnsupportedOperationError("no"), WORKING, DONE)
    found, target, slept = run_on(way, *answers)
    assert found is DONE
    options = {"timeout": 3.0}
    assert target.calls == [
        ("resubscribe", "t", options),
        ("get_task", "t", options),
        ("get_task", "t", options),
    ]
    assert len(slept) == 1


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_shell_raises_an_error_that_the_flow_does_not_take(way: str) -> None:
    error = TaskNotFoundError("gone")
    found, target, _ = run_on(way, MethodNotFoundError("no"), error)
    assert found is error
    assert len(target.calls) == 2


class ClosingTransport:
    """A transport that cannot subscribe, and whose client is closed during the first poll."""

    client: Any

    def resubscribe(self, request: Any) -> Any:
        raise UnsupportedOperationError("no")


class SyncClosingTransport(ClosingTransport):
    def get_task(self, request: Any) -> Task:
        self.client.close()
        return WORKING


class AsyncClosingTransport(ClosingTransport):
    async def get_task(self, request: Any) -> Task:
        await self.client.aclose()
        return WORKING


def wait_with_a_closed_client(way: str) -> None:
    transport: Any
    if way == "sync":
        transport = SyncClosingTransport()
        transport.client = A2AClient.with_transport(transport)
        transport.client.wait_for_task("t")
    else:
        transport = AsyncClosingTransport()
        transport.client = AsyncA2AClient.with_transport(transport)
        asyncio.run(transport.client.wait_for_task("t"))


@pytest.mark.parametrize("way", ["sync", "async"])
def test_closing_the_client_between_two_polls_raises_a_connection_error(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_polling, "Backoff", lambda: Backoff(0.001, 0.002))
    with pytest.raises(A2AConnectionError, match="the client was closed") as raised:
        wait_with_a_closed_client(way)
    assert raised.value.__cause__ is not None
