"""The offer of an application over A2A."""

from typing import Any

import pytest

from coreason_client import ArgumentError
from coreason_client.server import AgentApp, StreamLog
from coreason_client.server.a2a import A2A, AgentDescription
from coreason_client.server.a2a._cards import make_card
from coreason_client.server.a2a._settings import settings_of

from ..http.test_body import hello

CARD = make_card(AgentDescription("a", None, "1"))


def test_the_argument_is_true_a_card_or_settings() -> None:
    assert settings_of(True) == A2A()
    assert settings_of(CARD) == A2A(card=CARD)
    settings = A2A(extended_card=CARD)
    assert settings_of(settings) is settings


@pytest.mark.parametrize("given", ["yes", 1, {"name": "a"}])
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(ArgumentError, match="a2a must be True, an AgentCard or an A2A object"):
        AgentApp(hello, a2a=given)  # type: ignore[arg-type]


@pytest.mark.parametrize("versions", [(), ["1.0", "0.2"], "1.0"])
def test_other_versions_of_the_protocol_are_refused(versions: Any) -> None:
    with pytest.raises(ArgumentError, match=r"versions must have one or both of 1\.0 and 0\.3"):
        A2A(versions=versions)


def test_a_log_without_tasks_cannot_serve_a2a() -> None:
    class Bare(StreamLog):
        def __repr__(self) -> str:
            return "a bare log"

    Bare.__abstractmethods__ = frozenset()
    with pytest.raises(ArgumentError, match="a2a needs a log with tasks, and a bare log has none"):
        AgentApp(hello, log=Bare(), a2a=True)  # type: ignore[abstract]
