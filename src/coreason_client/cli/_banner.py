"""The announcement that `coreason serve` prints when it accepts requests. Pure."""

from pathlib import Path

from ._application import ServeConfig, redacted_log
from ._curl import curl_line

__all__ = ["banner"]


def banner(
    config: ServeConfig,
    url: str,
    authorization: str | None,
    *,
    uds: Path | None = None,
    grpc_port: int | None = None,
) -> str:
    """Return the announcement of a server at a URL, with a command that asks it."""
    name = config.agent or config.llm or "the built-in guide"
    location = "in memory" if config.log == "memory" else f"in {redacted_log(config.log)}"
    durable = " and continue after a restart" if config.durable else ""
    where = url if uds is None else f"the Unix socket {uds}"
    page = f"Open {url}/ in a browser. " if config.page and uds is None else ""
    card_url = f"{(config.public_url or url).rstrip('/')}/.well-known/agent-card.json"
    a2a = f"Its A2A card is {card_url}. " if config.serves_a2a else ""
    if grpc_port is not None:
        a2a += f"gRPC uses port {grpc_port}. "
    reload = "It restarts when a Python file changes. " if config.reload else ""
    return (
        f"Serving {name} at {where}, streams are stored {location}{durable}. {page}{a2a}{reload}"
        f"Press Ctrl-C to stop. Try:\n\n{curl_line(url, authorization, uds)}\n"
    )
