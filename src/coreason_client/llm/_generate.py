"""The flow of `generate`: requests and waits until there is a complete answer. No I/O."""

from typing import Any

from .._drive import Flow, Wait
from ._attempts import Attempts
from ._classify import Failure
from ._reply import read_reply
from .types import Response

__all__ = ["generate_flow"]


def generate_flow(attempts: Attempts, parse_as: Any = None) -> Flow[Response]:
    """Send requests until there is an answer, and return the response object.

    Raises:
        LLMError: no attempt succeeded.
    """
    while True:
        step = attempts.next_step()
        result = yield step
        if isinstance(step, Wait):
            continue
        outcome = read_reply(attempts.plan, result, parse_as, attempts.timeout)
        if not isinstance(outcome, Failure):
            return attempts.record_success(outcome)
        attempts.record_failure(outcome)
