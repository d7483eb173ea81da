"""Runs the application of `coreason serve` and announces it: here, in workers, or with restarts."""

import json
import logging
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coreason_client import ArgumentError

from .._listening import ListenAddress, listen_errors, open_browser
from .._logs import JsonFormatter
from .._options import usage_error
from ..exits import Failure
from ..output import print_stdout
from ._application import ServeConfig, redacted_location
from ._options import ServeOptions

if TYPE_CHECKING:
    from socket import socket

    from ...server import AgentApp, AgentGroup


@dataclass(frozen=True, slots=True)
class Serving:
    """An application and its configuration; `tls` has the options of uvicorn for TLS."""

    config: ServeConfig
    app: "AgentApp | AgentGroup"
    tls: Mapping[str, Any]

    def run(self) -> None:
        """Serve until a signal; announce the server when it accepts requests.

        Raises:
            Failure: it cannot listen, or the workers do not start.
        """
        options = self.config.options
        address = ListenAddress(
            options.host, options.port, options.uds, options.uds_mode, tls=bool(self.tls)
        )
        authorization = self.config.secrets.authorization()
        in_children = options.reload or options.workers > 1
        # The server uses these sockets, so no other process can take the port in between.
        with address.listening(shared=in_children) as sockets:
            if options.grpc_port:
                _check_free(options.host, options.grpc_port)
            bound = sockets[0].getsockname()
            url = address.url(bound[1]) + (options.root_path or "")

            agent_ids = self._agent_ids()

            def announce(grpc_port: int | None) -> None:
                shown = banner(options, url, authorization, agent_ids, grpc_port=grpc_port)
                # stdout and stderr often end in one file.
                print_stdout(_json_line(shown, url) if options.log_format == "json" else shown)
                if options.open_page:
                    open_browser(f"{agent_urls(options, url, agent_ids)[0]}/")

            if in_children:
                self._run_children(sockets[0], partial(announce, options.grpc_port))
            else:
                self._run_here(sockets, lambda: announce(getattr(self.app, "grpc_port", None)))

    def _agent_ids(self) -> list[str]:
        from ...server import AgentApp

        app = self.app
        return [app.agent_id] if isinstance(app, AgentApp) else list(app.agents)

    def _run_here(self, sockets: "list[socket]", announce: Callable[[], None]) -> None:
        from ...server import serve

        started, host = _once(announce), self.config.options.host
        try:
            serve(self.app, host, sockets=sockets, callback_notify=started, **self._uvicorn())
        except ArgumentError as error:  # the installed uvicorn has no such limit
            raise usage_error(error, {"max_connections": "--max-connections"}) from None

    def _run_children(self, sock: "socket", announce: Callable[[], None]) -> None:
        """Serve in other processes; each creates the application for itself."""
        from ...server import serve_workers
        from ...server.run import serve_reloading

        options, timeout = self.config.options, self.app.shutdown_timeout
        with self.config.for_workers() as (factory, on_tick), _failures():
            announce()  # the socket already accepts connections
            if options.reload:
                folders = reload_folders(options.agents or ())
                serve_reloading(factory, sock, folders, shutdown_timeout=timeout, **self._uvicorn())
            else:
                serve_workers(
                    factory,
                    sock,
                    options.workers,
                    shutdown_timeout=timeout,
                    grpc_address=options.grpc_address,
                    on_tick=on_tick,
                    **self._uvicorn(),
                )

    def _uvicorn(self) -> dict[str, Any]:
        """Return the options of uvicorn; `show_server_logs` has set the levels of its loggers."""
        limit = self.config.options.max_connections
        return {"log_config": None, "log_level": None, "max_connections": limit, **self.tls}


def _json_line(text: str, url: str) -> str:
    """Return an announcement as a log line, without its example."""
    fields = {"name": "coreason_client.server", "levelname": "INFO", "msg": text.split(" Press")[0]}
    record = logging.makeLogRecord({**fields, "event": "serving", "url": url})
    return JsonFormatter().format(record)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise Failure(str(error)) from None


def _check_free(host: str, grpc_port: int) -> None:
    """Check the port of gRPC, which has its own sockets and does not say what is wrong."""
    from ...server import listen_all

    with listen_errors(host, grpc_port):
        for sock in listen_all(host, grpc_port):
            sock.close()


def _once(announce: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Return a callback that announces only once; uvicorn calls it at the start and later again."""
    left = [announce]

    async def notify() -> None:
        if left:
            left.pop()()

    return notify


def reload_folders(agents: Iterable[str]) -> Iterable[Path]:
    """Return the folders to watch: the current directory, and those of the agents' modules."""
    folders = [Path.cwd()]
    for agent in agents:
        file = getattr(sys.modules.get(agent.partition(":")[0]), "__file__", None)
        folder = None if file is None else Path(file).resolve().parent
        if folder is not None and not any(folder.is_relative_to(known) for known in folders):
            folders.append(folder)
    return folders


# The announcement


def banner(
    options: ServeOptions,
    url: str,
    authorization: str | None,
    agent_ids: Sequence[str],
    *,
    grpc_port: int | None = None,
) -> str:
    """Return the announcement of a server at a URL, with a command that asks it."""
    uds = options.uds
    name = _listed(options.agents or [options.llm or "the built-in guide"])
    location = redacted_location(options.location)
    durable = " and continue after a restart" if options.durable else ""
    where = url if uds is None else f"the Unix socket {uds}"
    urls, public = agent_urls(options, url, agent_ids), (options.public_url or url).rstrip("/")
    page = ""
    if options.has_page and uds is None:
        page = f"Open {_listed([f'{one}/' for one in urls], 'or')} in a browser. "
    apis = ""
    shown = agent_urls(options, public, agent_ids)
    if options.serves_a2a:
        cards = _listed([f"{one}/.well-known/agent-card.json" for one in shown])
        apis = f"Its A2A card is {cards}. " if len(shown) == 1 else f"The A2A cards are {cards}. "
    if grpc_port is not None:
        apis += f"gRPC uses port {grpc_port}. "
    if options.serves_openai:
        models = "model" if len(agent_ids) == 1 else "models"
        apis += f"OpenAI API at {public}/v1, {models} {_listed(agent_ids)}. "
    if options.serves_ai_sdk:
        path = options.ai_sdk_path or "/api/chat"
        apis += f"AI SDK at {_listed([f'{one}{path}' for one in shown])}. "
    if options.serves_ag_ui:
        path = options.ag_ui_path or "/ag-ui"
        apis += f"AG-UI at {_listed([f'{one}{path}' for one in shown])}. "
    reload = "It restarts when a Python file changes. " if options.reload else ""
    return (
        f"Serving {name} at {where}, streams are stored in {location}{durable}. "
        f"{page}{apis}{reload}"
        f"Press Ctrl-C to stop. Try:\n\n{curl_line(urls[0], authorization, uds)}\n"
    )


def agent_urls(options: ServeOptions, url: str, agent_ids: Sequence[str]) -> list[str]:
    """Return the URL of each agent; each of several is below its id."""
    return [f"{url}/{one}" for one in agent_ids] if options.has_several_agents else [url]


def _listed(words: Sequence[str], last: str = "and") -> str:
    *others, final = words
    return f"{', '.join(others)} {last} {final}" if others else final


# The smallest valid ServiceRequest; without a request_id, each run is a new request.
_BODY = {
    "context": {"session_id": "demo", "user_id": "me"},
    "payload": {
        "messages": [
            {"role": "user", "parts": [{"type": "text", "content": "How do I resume a stream?"}]}
        ]
    },
}


def curl_line(url: str, authorization: str | None = None, uds: Path | None = None) -> str:
    """Return a command that asks the agent; `authorization` is a header, quoted for the shell."""
    parts = ["curl -N"] if uds is None else ["curl -N --unix-socket", shlex.quote(str(uds))]
    parts += [shlex.quote(f"{url}/assist"), "-H 'Content-Type: application/json'"]
    if authorization is not None:
        parts += ["-H", authorization]
    parts += ["-d", shlex.quote(json.dumps(_BODY, separators=(",", ":")))]
    return " ".join(parts)
