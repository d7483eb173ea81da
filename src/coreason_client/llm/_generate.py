"""The flow of a unary call: requests and waits until there is a complete answer. No I/O."""

from collections.abc import Callable
from typing import Any, TypeVar

from .._drive import Flow, Reply
from .._http._types import Request
from ._attempts import Attempts, PlanT
from ._classify import Failure
from ._plan import Plan
from ._reply import read_reply
from .types import Response

__all__ = ["call_flow", "generate_flow"]

Value = TypeVar("Value")
ReadReply = Callable[..., Value | Failure]


def call_flow(attempts: Attempts[PlanT], read: ReadReply[Value], *arguments: Any) -> Flow[Value]:
    """Send requests until one has an answer, and return its value.

    `read` gets the plan, the reply or failure, the timeout and the arguments; it returns the value
    of the reply, or the failure.

    Raises:
        LLMError: no attempt succeeded.
    """
    while True:
        step = attempts.next_step()
        result = yield step
        if not isinstance(step, Request):
            continue
        if isinstance(result, Reply):
            attempts.observer.head_received(result.head)
            attempts.observer.body_received(result.body)
            if attempts.gate is not None:
                attempts.gate.received(result.head)
        outcome = read(attempts.plan, result, attempts.timeout, *arguments)
        if not isinstance(outcome, Failure):
            return outcome
        attempts.record_failure(outcome)


def generate_flow(attempts: Attempts[Plan], parse_as: Any = None) -> Flow[Response]:
    """Send requests until there is an answer, and return the response object.

    Raises:
        LLMError: no attempt succeeded.
    """
    response = yield from call_flow(attempts, read_reply, parse_as)
    return attempts.record_success(response)
