"""The hooks run once around a call, and none of them can lose its result."""

import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from coreason_client.a2a import _options as _hooks
from coreason_client.a2a._options import CallInfo, Hooks


def call() -> CallInfo:
    return CallInfo("get_task", {"id": "secret-id"})


def ignore(_: CallInfo) -> None:
    """Accept a call."""


def test_the_order_is_request_preparation_body_response() -> None:
    steps: list[str] = []

    def step(name: str) -> Callable[[CallInfo], None]:
        return lambda _: steps.append(name)

    hooks = Hooks(step("on_request"), step("on_response"))
    with hooks.around(call(), step("prepare")):
        steps.append("body")
    assert steps == ["on_request", "prepare", "body", "on_response"]


def test_preparation_sees_the_headers_of_the_hook() -> None:
    prepared: list[dict[str, str]] = []

    def add(info: CallInfo) -> None:
        info.headers["X-Team"] = "blue"

    with Hooks(on_request=add).around(call(), lambda info: prepared.append(info.headers)):
        pass
    assert prepared == [{"X-Team": "blue"}]


def test_without_hooks_a_call_is_only_prepared(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[CallInfo] = []
    info = call()
    with Hooks().around(info, seen.append):
        assert info.duration is None
    assert seen == [info]
    assert info.error is None
    assert caplog.messages == []


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_the_exception_of_the_body_is_recorded_and_raised(error: BaseException) -> None:
    after: list[BaseException | None] = []
    info = call()
    hooks = Hooks(on_response=lambda seen: after.append(seen.error))
    with pytest.raises(type(error)), hooks.around(info, ignore):
        raise error
    assert after == [error]
    assert info.duration is not None


def test_the_duration_is_that_of_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([100.0, 102.5])
    monkeypatch.setattr(_hooks, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    info = call()
    with Hooks(on_request=lambda seen: seen.state.clear()).around(info, ignore):
        pass
    assert info.duration == 2.5


def test_a_stream_that_is_closed_early_has_no_error() -> None:
    after: list[CallInfo] = []
    info = call()

    def events() -> Iterator[int]:
        with Hooks(on_response=after.append).around(info, ignore):
            yield 1
            yield 2

    stream: Any = events()
    next(stream)
    assert after == []
    stream.close()
    assert after == [info]
    assert (info.error, info.duration is None) == (None, False)


@pytest.mark.parametrize("where", ["on_request", "prepare"])
def test_a_call_that_is_not_made_has_no_response(where: str) -> None:
    def fail(_: CallInfo) -> None:
        raise PermissionError(where)

    after: list[CallInfo] = []
    hooks = Hooks(fail if where == "on_request" else ignore, after.append)
    with pytest.raises(PermissionError, match=where), hooks.around(call(), fail):
        pytest.fail("the body must not run")
    assert after == []


def test_an_exception_of_on_response_is_logged_and_hides_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: CallInfo) -> None:
        raise PermissionError("hook")

    with caplog.at_level(logging.ERROR, "coreason_client.a2a"):
        with Hooks(on_response=fail).around(call(), ignore):
            pass
        with (
            pytest.raises(ValueError, match="body"),
            Hooks(on_response=fail).around(call(), ignore),
        ):
            raise ValueError("body")
    assert caplog.messages == ["on_response failed for get_task"] * 2


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        (Hooks(), False),
        (Hooks(on_request=ignore), True),
        (Hooks(on_response=ignore), True),
        (Hooks(on_event=lambda call, event: None), True),
    ],
)
def test_hooks_are_true_if_there_is_one(hooks: Hooks, expected: bool) -> None:
    assert bool(hooks) is expected


async def later(_: CallInfo) -> None:
    """Accept a call, but too late."""


@pytest.mark.parametrize("name", ["on_request", "on_response", "on_event"])
@pytest.mark.parametrize(("odd", "got"), [(later, "an async function"), ("hook", "str")])
def test_a_hook_must_be_a_plain_function(name: str, odd: Any, got: str) -> None:
    with pytest.raises(TypeError) as caught:
        Hooks(**{name: odd})
    assert str(caught.value) == f"{name} must be a function that is not async, got {got}"


def test_the_repr_of_a_call_shows_no_content() -> None:
    info = call()
    info.headers["X-Key"] = "secret-header"
    info.state["x"] = info.metadata["x"] = info.result = "secret-value"
    assert "get_task" in repr(info)
    assert "secret" not in repr(info)
