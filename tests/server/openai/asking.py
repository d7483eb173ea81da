"""An agent behind the API on loopback, and the official client for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openai import OpenAI

from coreason_client.server import AgentApp, AgentStream, running
from coreason_manifest.definitions.service import ServiceRequest

__all__ = ["LIMIT", "MODEL", "client_of", "serving", "shows_history"]

MODEL = "agent"
LIMIT = 20.0


@contextmanager
def serving(agent: Any, **options: Any) -> Iterator[Any]:
    """Serve an agent, and yield a client that does not repeat requests by itself."""
    options.setdefault("drain_timeout", 0.0)
    app = AgentApp(agent, agent_id=MODEL, openai=options.pop("openai", True), **options)
    with running(app) as server, client_of(server.url) as client:
        yield client


def client_of(url: str, key: str = "none", **options: Any) -> Any:
    """Return the official client for a server."""
    options.setdefault("max_retries", 0)
    return OpenAI(base_url=f"{url}/v1", api_key=key, timeout=LIMIT, **options)


async def shows_history(request: ServiceRequest, stream: AgentStream) -> None:
    """Answer with everything that an agent can see of a conversation."""
    earlier = [f"{message.role}:{message.text}" for message in await stream.history()]
    new = [f"{message.role}:{message.text}" for message in request.payload.messages or ()]
    await stream.write(f"[{' '.join(earlier)}][{' '.join(new)}][{stream.question}]")
