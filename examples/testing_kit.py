"""Tests of a program that asks an agent: the agent is fake, the lost connection is real.

    python -m pytest examples/testing_kit.py

The fake agent is the real server on a free port of this machine. With the virtual clock the delay
before a reconnection takes no time.
"""

import pytest

from coreason_client import CAPClient, CAPRuntimeError
from coreason_client.testing import disconnect, fail, fake_agent, virtual_clock


def summary(url: str, question: str) -> str:
    """The program under test."""
    with CAPClient(url, api_key="any-key") as client:
        answer = client.ask(question)
    return f"{len(answer.split())} words: {answer}"


def test_a_lost_connection_loses_no_word() -> None:
    with virtual_clock() as clock, fake_agent(["one ", disconnect(), "two"]) as agent:
        assert summary(agent.url, "Count.") == "2 words: one two"
    assert len(agent.requests) == 2  # the second one resumed the first
    assert len(clock.waits) == 1


def test_an_agent_that_fails_is_an_error() -> None:
    with (
        fake_agent(["one ", fail("no paper", code="out_of_paper")]) as agent,
        pytest.raises(CAPRuntimeError, match="out_of_paper"),
    ):
        summary(agent.url, "Count.")
