"""The private part of grpc that the sync sender uses, as it is and if it were missing."""

import logging

import grpc  # type: ignore[import-untyped]
import pytest

from coreason_client import _fallback
from coreason_client.a2a._grpc._internals import READY, connecting_state, wait_for_change
from tests.a2a.grpc.scripted import LIMIT, scripted


def test_the_state_of_a_channel() -> None:
    with scripted() as (address, _), grpc.insecure_channel(address) as channel:
        for _ in range(5):  # idle, connecting, ready
            state = connecting_state(channel)
            if state == READY:
                break
            wait_for_change(channel, state, LIMIT)
        assert connecting_state(channel) == READY


def test_a_closed_channel() -> None:
    channel = grpc.insecure_channel("127.0.0.1:9")
    channel.close()
    with pytest.raises(ValueError, match="closed"):
        connecting_state(channel)
    with pytest.raises(ValueError, match="closed"):
        wait_for_change(channel, 0, LIMIT)


def test_if_it_is_missing_calls_do_not_wait(caplog: pytest.LogCaptureFixture) -> None:
    _fallback.report_fallback.cache_clear()
    with caplog.at_level(logging.DEBUG, "coreason_client"):
        assert connecting_state(object()) == READY
    wait_for_change(object(), 0, LIMIT)
    assert "calls do not wait for a connection" in caplog.text
