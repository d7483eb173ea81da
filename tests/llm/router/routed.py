"""Routed calls against scripted deployments, on a clock that only the tests advance. No I/O."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from coreason_client._drive import Action, Flow, Reply, Wait
from coreason_client._http._types import Request, TransportFailure
from coreason_client.llm import (
    Budget,
    Deployment,
    LLMError,
    MemoryState,
    Response,
    ResponseCache,
    Router,
)
from coreason_client.llm._answer_machine import AnswerMachine
from coreason_client.llm._attempts import Attempts, Policy
from coreason_client.llm._check_call import check_call
from coreason_client.llm._plan import CallPlan
from coreason_client.llm._reply import generate_flow
from coreason_client.llm._route import Target
from coreason_client.llm.router._call_gate import CallGate
from coreason_client.llm.router._routing import Routing
from coreason_client.llm.router._state import RouterState
from tests.llm.play import HEAD, KEY, MESSAGES, Clock, reply

__all__ = ["MODEL", "Outcome", "Site", "answer", "host"]

MODEL = "gpt-4o"  # its price is known: 2.50 and 10 dollars per million tokens
Outcome = Reply | TransportFailure


def host(name: str) -> str:
    return f"http://{name}.test"


def answer(prompt: int = 100, completion: int = 50, **headers: str) -> Reply:
    body = {
        "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion},
    }
    return reply(200, body, **headers)


class Site:
    """A client's routing; `outcomes` are the replies of each host, the last one for ever."""

    def __init__(
        self,
        groups: Mapping[str, Sequence[str | Deployment]] | None = None,
        *,
        budgets: Budget | Sequence[Budget] | None = None,
        cache: ResponseCache | None = None,
        state: RouterState | None = None,
        outcomes: Mapping[str, Any] | None = None,
        max_retries: int = 3,
        deadline: float = 300.0,
        **router: Any,
    ) -> None:
        self.clock = Clock()
        self.clock.now = 1_800_000_000.0
        self.state = MemoryState(clock=self.clock) if state is None else state
        self.target = Target(host("direct"), KEY)
        self.router = None if groups is None else Router(_deployments(groups), **router)
        self.routing = Routing(self.router, budgets, cache, self.state, self.target.route)
        self.routing._random = lambda: 0.5  # in the order in which they are written
        self.routing._wall = self.clock
        self.outcomes: dict[str, list[Outcome]] = {
            name: list(some) if isinstance(some, list | tuple) else [some]
            for name, some in (outcomes or {}).items()
        }
        self.policy = Policy(60.0, max_retries, deadline, jitter=lambda: 0.0, clock=self.clock)
        self.hosts: list[str] = []
        self.requests: list[Request] = []
        self.waits: list[float] = []
        self.on_request: Callable[[Request], None] = lambda request: None

    def attempts(
        self, model: str = "fast", *, stream: bool = False, **options: Any
    ) -> Attempts[CallPlan]:
        fallbacks = options.pop("fallbacks", ())
        key, tags = options.pop("budget_key", None), options.pop("tags", ())
        max_tokens = options.pop("max_tokens", 100)
        policy = replace(self.policy, on_break=options.pop("on_break", "error"))
        messages = options.pop("messages", MESSAGES)
        call = check_call(messages, model, None, 0.7, max_tokens, stream=stream, **options)
        gate = self.routing.gate(call, fallbacks, key, tags)
        assert gate is not None
        return Attempts([gate.plan], policy, gate)

    def generate(self, model: str = "fast", **options: Any) -> Response:
        response_format, budget_key = options.get("response_format"), options.get("budget_key")
        attempts = self.attempts(model, **options)
        flow = generate_flow(attempts, response_format)
        cached = self.routing.cached_answer(attempts, budget_key, response_format)
        if cached is not None:
            flow = cached.flow(flow)
        try:
            return self.run(flow)
        finally:
            close(attempts)

    def fails(self, model: str = "fast", **options: Any) -> LLMError:
        with pytest.raises(LLMError) as caught:
            self.generate(model, **options)
        return caught.value

    def run(self, flow: Flow[Response]) -> Response:
        sent: Outcome | None = None
        try:
            while True:
                step = flow.send(sent)
                sent = None
                if isinstance(step, Wait):
                    self.wait(step)
                elif isinstance(step, Action):
                    step.perform()
                else:
                    sent = self.outcome(step)
        except StopIteration as done:
            response: Response = done.value
            return response

    def stream(self, chunks: Mapping[str, Any], model: str = "fast", **options: Any) -> list[Any]:
        """Read a stream to its end; `chunks` are the bytes of each host, with a failure last."""
        attempts = self.attempts(model, stream=True, **options)
        machine = AnswerMachine(attempts)
        deltas: list[Any] = []
        try:
            while (step := machine.next_step()) is not None:
                if isinstance(step, Wait):
                    self.wait(step)
                elif isinstance(step, Action):
                    step.perform()
                else:
                    deltas += self.read(machine, step, chunks)
        finally:
            close(machine)
        return deltas

    def read(self, machine: AnswerMachine, step: Request, chunks: Mapping[str, Any]) -> list[Any]:
        name = self.sent(step)
        deltas: list[Any] = []
        failure: TransportFailure | None = None
        given = chunks[name]
        if isinstance(given, Reply):
            assert not machine.accepts(given.head)
            machine.refused(given.head, given.body)
            return []
        assert machine.accepts(HEAD)
        for chunk in given:
            if isinstance(chunk, TransportFailure):
                failure = chunk
                break
            deltas += machine.receive(chunk)
        return [*deltas, *machine.lost(failure)]

    def outcome(self, request: Request) -> Outcome:
        name = self.sent(request)
        some = self.outcomes.get(name, [answer()])
        return some.pop(0) if len(some) > 1 else some[0]

    def sent(self, request: Request) -> str:
        name = request.url.removeprefix("http://").partition(".")[0]
        self.requests.append(request)
        self.hosts.append(name)
        self.on_request(request)
        return name

    def wait(self, step: Wait) -> None:
        self.waits.append(step.seconds)
        self.clock.now += step.seconds

    def totals(self, budget: Budget, key: str | None = None) -> tuple[float, float]:
        """Return the dollars spent and reserved."""
        account = budget.account(key, self.clock.now)
        spent, reserved = self.state.totals(account.name)  # type: ignore[attr-defined]
        return spent / 1e9, reserved / 1e9

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]


def close(call: Attempts[CallPlan] | AnswerMachine) -> None:
    if isinstance(call, AnswerMachine):
        for step in call.close_flow():
            assert isinstance(step, Action)
            step.perform()
    elif (action := call.close()) is not None:
        action.perform()


def gate_of(attempts: Attempts[CallPlan]) -> CallGate[CallPlan]:
    assert isinstance(attempts.gate, CallGate)
    return attempts.gate


def _deployments(
    groups: Mapping[str, Sequence[str | Deployment]],
) -> dict[str, list[Deployment]]:
    """A name stands for a deployment of `MODEL` at the host of that name."""
    return {
        name: [
            Deployment(MODEL, base_url=host(one), api_key=KEY) if isinstance(one, str) else one
            for one in some
        ]
        for name, some in groups.items()
    }
