"""Calls against a scripted provider, on a clock that only the tests advance. No I/O."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from coreason_client._drive import Action, Flow, Reply, Wait
from coreason_client._http._types import (
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TransportFailure,
)
from coreason_client.llm import (
    Delta,
    LLMError,
    Response,
)
from coreason_client.llm._answer_machine import AnswerMachine
from coreason_client.llm._attempts import Attempts, Policy
from coreason_client.llm._check_call import check_call
from coreason_client.llm._plan import CallPlan
from coreason_client.llm._reply import generate_flow
from coreason_client.llm._route import Target

KEY = "sk-of-the-flow"
BASE = "http://127.0.0.1:9"
LOGGER = "coreason_client.llm"
MESSAGES = [{"role": "user", "content": "Hello"}]
TIMED_OUT = TransportFailure(FailureKind.TIMEOUT, "the time was up")
BROKEN = TransportFailure(FailureKind.BROKEN, "the server closed the connection")
REFUSED = TransportFailure(FailureKind.CONNECT, "cannot connect")
ANSWER = {
    "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Play:
    """A call with a provider whose outcomes are a list, the last one for ever.

    Each request takes `seconds`, and a wait takes as long as it says.
    """

    def __init__(
        self,
        *outcomes: Reply | TransportFailure,
        models: Sequence[str] = ("m",),
        seconds: float = 0.0,
        extra: Mapping[str, Any] | None = None,
        stream: bool = False,
        raw: bool = False,
        target: Target | None = None,
        **policy: Any,
    ) -> None:
        self.clock = Clock()
        self.outcomes = list(outcomes)
        self.seconds = seconds
        self.requests: list[Request] = []
        self.waits: list[float] = []
        policy = {"jitter": lambda: 0.0, "clock": self.clock, **policy}
        target = target or Target(BASE, KEY)
        plans = []
        for model in models:
            route = target.route(model)
            options: dict[str, Any] = {"extra": extra, "stream": stream, "raw": raw}
            call = check_call(MESSAGES, route.model, None, 0.7, 100, **options)
            plans.append(CallPlan(call, route, call.model))
        self.attempts = Attempts(plans, Policy(**policy))

    def next_outcome(self, step: Request) -> Reply | TransportFailure:
        self.requests.append(step)
        self.clock.now += self.seconds
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]

    def wait(self, step: Wait) -> None:
        self.waits.append(step.seconds)
        self.clock.now += step.seconds

    def run(self) -> Response:
        flow: Flow[Response] = generate_flow(self.attempts)
        sent: Reply | TransportFailure | None = None
        try:
            while True:
                step = flow.send(sent)
                sent = None
                if isinstance(step, Wait):
                    self.wait(step)
                elif isinstance(step, Action):
                    step.perform()
                else:
                    sent = self.next_outcome(step)
        except StopIteration as done:
            response: Response = done.value
            return response

    def fails(self, kind: type[LLMError]) -> LLMError:
        with pytest.raises(LLMError) as caught:
            self.run()
        assert type(caught.value) is kind, caught.value
        return caught.value

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]


def reply(status: int = 200, body: Any = ANSWER, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/html" if content.startswith(b"<") else "application/json"
    return Reply(ResponseHead(status, Headers([("content-type", kind), *named.items()])), content)


def refusal(
    status: int, code: str | None = None, param: str | None = None, **headers: str
) -> Reply:
    error = {"message": "no", "type": "some_error", "code": code, "param": param}
    return reply(status, {"error": error}, **headers)


def unsupported(parameter: str) -> Reply:
    return refusal(400, "unsupported_parameter", parameter)


HEAD = ResponseHead(200, Headers([("content-type", "text/event-stream")]))


def event(**choice: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


HI = event(delta={"content": "Hi"})
END = event(delta={}, finish_reason="stop") + b"data: [DONE]\n\n"


class Streaming(Play):
    """A call of a stream; an outcome may also be the chunks of one, with a failure at its end."""

    def __init__(self, *outcomes: Any, **options: Any) -> None:
        super().__init__(*outcomes, **options)
        self.machine = AnswerMachine(self.attempts)

    def deltas(self) -> Iterator[Delta]:
        machine = self.machine
        while (step := machine.next_step()) is not None:
            if isinstance(step, Wait):
                self.wait(step)
                continue
            if isinstance(step, Action):
                step.perform()
                continue
            outcome: Any = self.next_outcome(step)
            if isinstance(outcome, Reply):
                if machine.accepts(outcome.head):
                    yield from machine.receive(outcome.body)
                    yield from machine.lost(None)
                else:
                    machine.refused(outcome.head, outcome.body)
                continue
            yield from self.streamed(outcome)

    def streamed(self, outcome: Any) -> Iterator[Delta]:
        machine, failure = self.machine, None
        if isinstance(outcome, TransportFailure):
            failure, outcome = outcome, []
        else:
            assert machine.accepts(HEAD)
        for chunk in outcome:
            if isinstance(chunk, TransportFailure):
                failure = chunk
                break
            yield from machine.receive(chunk)
            self.clock.now += self.seconds
            if not machine.reading:
                break
        yield from machine.lost(failure)


OUTCOMES = st.sampled_from(
    [
        *(reply(), refusal(429), refusal(429, retry_after="3"), refusal(429, retry_after="500")),
        *(refusal(500), refusal(529), refusal(401), refusal(429, "insufficient_quota")),
        *(unsupported("temperature"), unsupported("max_tokens"), unsupported("model")),
        *(reply(200, b""), reply(200, b"<html>"), reply(200, {"choices": []}), reply(302, b"")),
        *(refusal(500, x_should_retry="false"), refusal(400, x_should_retry="true")),
        *(TIMED_OUT, BROKEN, REFUSED, TransportFailure(FailureKind.CERTIFICATE, "bad")),
    ]
)
PIECES = st.lists(st.sampled_from([HI, END, b": ping\n\n", b"data: {}\n\n", BROKEN, TIMED_OUT]))


def check(play: Play, outcome: LLMError | None, models: int, retries: int, deadline: float) -> None:
    """The rules that hold at the end of every call."""
    sent = len(play.requests)
    assert sent <= models * (retries + 2)  # one of them is for a parameter
    assert play.clock.now - 1000 <= deadline + play.seconds
    assert sum(play.waits) <= deadline
    if outcome is not None:
        assert outcome.attempts == sent


SETTINGS = {
    "models": st.integers(1, 3),
    "retries": st.integers(0, 4),
    "deadline": st.sampled_from([0.5, 5.0, 60.0, 10_000.0]),
    "seconds": st.sampled_from([0.0, 1.0, 10.0]),
    "jitter": st.floats(0, 1),
    "limited": st.booleans(),
}
