"""The rules of a run, without a model and without tools."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm import (
    LLMError,
    LLMRunLimitError,
    LLMRunTimeoutError,
    LLMTimeoutError,
    LLMToolError,
    ToolAbort,
)
from coreason_client.llm._check_messages import check_messages
from coreason_client.llm.tools._output import ToolOutput, error_output
from coreason_client.llm.tools._run_machine import (
    AskModel,
    CallTools,
    RunLimits,
    RunMachine,
    conversation,
)
from tests.llm.play import Clock

from .answers import MESSAGES, response

ADD = ("add", {"a": 1, "b": 2})
SUB = ("sub", {"a": 1})


def machine(clock: Callable[[], float] | None = None, **limits: Any) -> RunMachine:
    return RunMachine(list(MESSAGES), RunLimits(**limits), clock=clock or Clock())


def ask(run: RunMachine) -> AskModel:
    step = run.next_step()
    assert isinstance(step, AskModel)
    return step


def turn(run: RunMachine, *wanted: Any, outputs: Any = None, **data: Any) -> AskModel:
    """Do one turn; return its request."""
    step = ask(run)
    run.record_answer(response(*wanted, **data))
    if wanted:
        assert isinstance(run.next_step(), CallTools)
        for index, _ in enumerate(wanted):
            output = outputs[index] if outputs else ToolOutput("3")
            if output is not None:
                run.record_output(index, output, 0.1)
        run.end_calls()
    return step


def error(run: RunMachine, kind: type[LLMError]) -> Any:
    with pytest.raises(LLMError) as caught:
        run.next_step()
    assert type(caught.value) is kind
    assert caught.value.conversation == run.messages
    assert caught.value.usage == run.usage
    check_messages(run.messages)  # it can be sent
    return caught.value


def test_a_run_ends_with_the_first_answer_without_calls() -> None:
    run = machine()
    assert turn(run, ADD).messages == MESSAGES
    step = turn(run)
    assert [message["role"] for message in step.messages] == ["user", "assistant", "tool"]
    assert step.messages[2] == {"role": "tool", "tool_call_id": "call_1", "content": "3"}
    assert run.next_step() is None
    result = run.result
    assert result is not None
    assert (result.text, result.turns, len(result.messages)) == ("done", 2, 4)
    assert result.messages[3] == {"role": "assistant", "content": "done"}
    assert result.usage["total_tokens"] == 10
    assert result.usage["cost_estimate"] == 1.0
    [call] = result.tool_calls
    assert (call.turn, call.id, call.name, call.result) == (1, "call_1", "add", "3")


def test_the_messages_of_the_caller_are_not_changed() -> None:
    messages = list(MESSAGES)
    run = RunMachine(messages, RunLimits())
    turn(run, ADD)
    assert messages == MESSAGES


def test_signatures_and_reasoning_are_sent_back_and_the_rest_is_not() -> None:
    run = machine()
    call = {"id": "c", "name": "add", "arguments": {}, "signature": "s"}
    turn(run, ADD, tool_calls=[call], reasoning="why", provider_items=[1], parsed=object())
    assert run.messages[1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
        "reasoning": "why",
        "provider_items": [1],
    }


def test_errors_are_marked() -> None:
    run = machine()
    turn(run, ADD, SUB, outputs=[ToolOutput("3"), error_output("no")])
    assert [message.get("is_error") for message in run.messages[2:]] == [None, True]
    assert [message.get("is_error") for message in check_messages(run.messages)[2:]] == [None, True]


def test_results_are_sent_in_the_order_of_the_calls() -> None:
    run = machine()
    ask(run)
    run.record_answer(response(ADD, SUB, ADD))
    for index in (2, 0, 1):
        run.record_output(index, ToolOutput(str(index)), 0.1)
    run.end_calls()
    assert [message["content"] for message in run.messages[2:]] == ["0", "1", "2"]


def test_images_follow_the_results() -> None:
    image = "data:image/png;base64,iVBORw0KGgo="
    run = machine()
    turn(run, ADD, SUB, outputs=[ToolOutput("a", images=(image,)), ToolOutput("b")])
    assert [message["role"] for message in run.messages[2:]] == ["tool", "tool", "user"]
    assert run.messages[-1]["content"][1] == {"type": "image_url", "image_url": {"url": image}}
    check_messages(run.messages)


def test_a_long_result_is_cut_with_a_marker() -> None:
    run = machine(max_result_chars=10)
    turn(run, ADD, outputs=[ToolOutput("x" * 50)])
    assert run.messages[-1]["content"] == ("xxxxxxxxxx\n[truncated: the first 10 of 50 characters]")


def test_the_last_call_of_an_answer_that_was_cut_off_is_not_executed() -> None:
    run = machine()
    ask(run)
    run.record_answer(response(ADD, SUB, truncated=True))
    step = run.next_step()
    assert isinstance(step, CallTools)
    assert [call.refusal is None for call in step.calls] == [True, False]
    assert "cut off" in (step.calls[1].refusal or "")


def test_a_call_with_invalid_arguments_is_not_executed_and_can_be_sent_back() -> None:
    run = machine(max_tool_errors=2)
    for _ in range(2):
        ask(run)
        answer = response(ADD, SUB)
        answer["data"]["tool_calls"][1]["invalid_arguments"] = "x" * 5000
        run.record_answer(answer)
        step = run.next_step()
        assert isinstance(step, CallTools)
        first, second = step.calls
        assert first.refusal is None
        assert (second.refusal or "").startswith("the arguments are not a JSON object: 'xxx")
        assert len(second.refusal or "") < 1200
        run.record_output(0, ToolOutput("3"), 0.1)
        run.record_output(1, error_output(second.refusal or ""), 0.0)
        run.end_calls()
        sent = check_messages(run.messages)
        assert all("invalid_arguments" not in call for call in sent[1]["tool_calls"])
    assert error(run, LLMToolError).tool == "sub"


@pytest.mark.parametrize(
    ("choice", "later"),
    [
        (None, None),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "auto"),
        ({"type": "function", "function": {"name": "add"}}, "auto"),
    ],
)
def test_a_forced_choice_applies_to_the_first_turn(choice: Any, later: Any) -> None:
    run = RunMachine(MESSAGES, RunLimits(), tool_choice=choice)
    assert turn(run, ADD).tool_choice == choice
    assert turn(run, ADD).tool_choice == later


# Limits.


def test_the_number_of_turns_is_limited() -> None:
    run = machine(max_turns=2)
    turn(run, ADD)
    turn(run, ADD)
    found = error(run, LLMRunLimitError)
    assert (found.limit, found.maximum, found.reached) == ("max_turns", 2, 2)
    assert "max_turns: 2 of 2" in str(found)
    assert [message["role"] for message in found.conversation][-1] == "tool"


def test_the_tokens_are_limited() -> None:
    run = machine(max_tokens_total=6)
    turn(run, ADD)
    turn(run, ADD)
    found = error(run, LLMRunLimitError)
    assert (found.limit, found.maximum, found.reached) == ("max_tokens_total", 6, 10)


def test_the_cost_is_limited() -> None:
    run = machine(max_cost=0.5)
    turn(run, ADD)
    found = error(run, LLMRunLimitError)
    assert (found.limit, found.maximum, found.reached) == ("max_cost", 0.5, 0.5)


def test_a_cost_that_is_not_known_cannot_be_limited() -> None:
    run = machine(max_cost=10)
    turn(run, ADD, cost=None)
    found = error(run, LLMRunLimitError)
    assert (found.limit, found.reached) == ("max_cost", None)
    assert "price" in str(found)


def test_broken_attempts_count_against_the_limits() -> None:
    run = machine(max_tokens_total=50)
    ask(run)
    answer = response(ADD)
    answer["spent"] = {**answer["usage"], "total_tokens": 60}
    run.record_answer(answer)
    run.record_output(0, ToolOutput("3"), 0)
    run.end_calls()
    assert error(run, LLMRunLimitError).reached == 60


def test_the_time_is_limited() -> None:
    clock = Clock()
    run = machine(clock, timeout=5)
    turn(run, ADD)
    clock.now += 4
    assert run.seconds_left() == 1
    turn(run, ADD)
    clock.now += 1
    found = error(run, LLMRunTimeoutError)
    assert (found.limit, found.maximum, found.reached) == ("timeout", 5, 5)
    assert isinstance(found, LLMTimeoutError)
    assert isinstance(found, TimeoutError)


def test_the_last_answer_may_exceed_a_limit() -> None:
    run = machine(max_turns=1, max_tokens_total=1, max_cost=0.1)
    turn(run)
    assert run.next_step() is None


# Errors of tools.


def test_the_same_tool_may_not_fail_too_often_in_a_row() -> None:
    run = machine(max_tool_errors=3)
    turn(run, ADD, SUB, outputs=[error_output("one"), error_output("other")])
    turn(run, ADD, outputs=[error_output("two")])
    turn(run, ADD, outputs=[error_output("three")])
    found = error(run, LLMToolError)
    assert (found.tool, found.failures, found.result) == ("add", 3, "Error: three")
    assert "'add' has failed 3 times" in str(found)


def test_a_success_ends_the_row() -> None:
    run = machine(max_tool_errors=2)
    for _ in range(3):
        turn(run, ADD, ADD, outputs=[error_output("no"), ToolOutput("yes")])
    assert isinstance(run.next_step(), AskModel)


def test_a_tool_can_end_the_run() -> None:
    class Stop(ToolAbort):
        """An error of the caller."""

    stop = Stop("enough")
    run = machine()
    ask(run)
    run.record_answer(response(ADD, SUB))
    run.record_output(0, ToolOutput("Error: enough", is_error=True, abort=stop), 0.1)
    assert run.stopping
    run.end_calls()
    assert error(run, Stop) is stop
    assert [message["content"] for message in run.messages[2:]] == [
        "Error: enough",
        "Error: the call was interrupted, and may or may not have taken effect",
    ]


def test_an_error_in_the_middle_of_a_turn_leaves_a_valid_conversation() -> None:
    run = machine()
    ask(run)
    run.record_answer(response(ADD, SUB))
    run.record_output(1, ToolOutput("1"), 0.1)
    found = run.ended_by(LLMError("broken"))
    assert found.conversation is not None
    check_messages(found.conversation)
    assert [message["role"] for message in found.conversation[2:]] == ["tool", "tool"]


# Anything.

OUTPUT = st.one_of(
    st.just(ToolOutput("ok")),
    st.just(error_output("bad")),
    st.just(ToolOutput("stop", is_error=True, abort=ToolAbort("stop"))),
    st.none(),  # interrupted
)
TURN = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), OUTPUT, st.randoms()), max_size=4)


@given(
    turns=st.lists(TURN, max_size=8),
    max_turns=st.integers(1, 6),
    max_tokens_total=st.none() | st.integers(1, 40),
    max_tool_errors=st.integers(1, 4),
)
def test_every_call_gets_one_result_in_order_and_the_limits_hold(
    turns: list[Any], max_turns: int, max_tokens_total: int | None, max_tool_errors: int
) -> None:
    run = machine(
        max_turns=max_turns, max_tokens_total=max_tokens_total, max_tool_errors=max_tool_errors
    )
    asked = 0
    try:
        for wanted in [*turns, []]:
            ask(run)
            assert max_tokens_total is None or run.usage["total_tokens"] < max_tokens_total
            asked += 1
            run.record_answer(response(*((name, {}) for name, _, _ in wanted)))
            if not wanted:
                break
            order = list(range(len(wanted)))
            wanted[0][2].shuffle(order)
            for index in order:
                if run.stopping:
                    break
                if wanted[index][1] is not None:
                    run.record_output(index, wanted[index][1], 0)
            run.end_calls()
        assert run.next_step() is None
    except (LLMRunLimitError, LLMToolError, ToolAbort) as stopped:
        assert stopped.conversation == run.messages  # noqa: PT017 - or there is no error
        assert run.result is None
    assert asked == run.turns <= max_turns
    assert run.usage["total_tokens"] == 5 * asked
    _check_results(run.messages)


def _check_results(messages: list[Any]) -> None:
    check_messages(messages)
    position = 0
    while position < len(messages):
        ids = [call["id"] for call in messages[position].get("tool_calls", ())]
        position += 1
        for id_ in ids:
            assert messages[position]["tool_call_id"] == id_
            position += 1
    assert sum("tool_call_id" in message for message in messages) == sum(
        len(message.get("tool_calls", ())) for message in messages
    )


def test_each_message_is_checked_once_for_the_client() -> None:
    own, checked = conversation(MESSAGES)
    run = RunMachine(own, RunLimits(), checked=checked)
    assert run.checked_messages() is checked
    turn(run, ADD)
    second = run.checked_messages()
    assert second[0] is checked[0]
    assert list(second) == check_messages(run.messages)
    turn(run, ADD)
    assert list(run.checked_messages()) == check_messages(run.messages)
