"""The agent and the model that the pages talk to, once for each process that runs tests."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running

from .models import FakeModel, fake_model


@dataclass(frozen=True)
class Services:
    """The replacements of the addresses of the pages, and the model."""

    known: dict[str, str]
    model: FakeModel


async def parrot(request: ServiceRequest, stream: AgentStream) -> None:
    """Repeats what you say."""
    await stream.write("You said: ")
    for word in stream.question.split(" "):
        await stream.write(f"{word} ")


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with ExitStack() as stack:
        agent = stack.enter_context(running(AgentApp(parrot, a2a=True, on_busy="wait")))
        model = stack.enter_context(fake_model())
        known = {
            "https://agent.example": agent.url,
            "https://a2a.example": agent.url,
            "https://api.openai.com": model.url,
            "https://api.anthropic.com": model.url,
        }
        yield Services(known, model)
