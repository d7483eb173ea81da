"""`coreason inspect`: shows an agent in the browser, over CAP or A2A."""

import logging
import secrets
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ._listening import ListenAddress, open_browser
from ._load import require_server
from ._logs import show_logs
from ._options import Verbose, is_from_environment
from .a2a._agent import redacting
from .a2a._commands import Extensions, Headers, Origins, Token, given_agent
from .exits import ExitCode, Failure, epilog, exit_codes
from .output import print_stdout

if TYPE_CHECKING:
    from ..inspector import A2ATarget, CAPTarget

__all__ = ["inspect"]

EPILOG = epilog(
    "coreason inspect http://127.0.0.1:8000",
    "coreason inspect https://agent.example --protocol a2a",
    "coreason inspect https://agent.example --no-open --port 9000",
    about="The page can only reach the agent at URL, through a server on this machine that adds "
    "the key, the token and the headers. Whoever has the printed URL can use it until the "
    "command ends.",
)


def inspect(
    context: typer.Context,
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="URL of the agent; for A2A also the URL of its card."),
    ],
    protocol: Annotated[
        Literal["cap", "a2a"] | None,
        typer.Option(
            help="Protocol of the agent.", show_default="a2a if the agent has a card, otherwise cap"
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="COREASON_API_KEY", metavar="KEY", help="API key of a CAP agent."),
    ] = None,
    token: Token = None,
    headers: Headers = None,
    origins: Origins = None,
    extensions: Extensions = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Time without data after which the agent's connection counts as lost.",
            show_default="60",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Loopback address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="Port to listen on; 0 chooses a free one."
        ),
    ] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not open the browser, only print the URL.")
    ] = False,
    verbose: Verbose = 0,
) -> None:
    """Show an agent in the browser, with every packet and connection.

    The agent speaks CAP or A2A. A small server on this machine serves the page and passes its
    requests on to the agent. Ctrl-C stops it.
    """
    with exit_codes():
        show_logs(verbose, default_level=logging.WARNING)
        require_server("coreason inspect")
        _check_host(host)
        from ._inspect_target import InspectOptions, find_target

        agent = given_agent(
            context, url, headers, origins, extensions, token=token, timeout=timeout
        )
        from_environment = is_from_environment(context, "api_key")
        key_name = "COREASON_API_KEY" if from_environment else "--api-key"
        options = InspectOptions(agent, api_key, key_name)
        with redacting(*options.secrets):
            target = find_target(options, protocol)
        _serve(target, host, port, opens=not no_open)


def _check_host(host: str) -> None:
    from ..server.run import is_loopback

    if not is_loopback(host):
        raise Failure(
            f"--host must be a loopback address such as 127.0.0.1, got {host!r}: who reaches the "
            "page could use your credentials",
            ExitCode.USAGE,
        )


def _serve(target: "CAPTarget | A2ATarget", host: str, port: int, *, opens: bool) -> None:
    from ..inspector import Inspector
    from ..server.run import serve_asgi

    token = secrets.token_urlsafe(32)
    address = ListenAddress(host, port)
    with address.listening(shared=False) as sockets:
        page = f"{address.url(sockets[0].getsockname()[1])}/#token={token}"

        def started() -> None:
            print_stdout(
                f"Inspecting {target.shown_url} ({target.protocol}). Press Ctrl-C to stop.\n\n"
                f"{page}\n"
            )
            if opens:
                open_browser(page)

        # Logging is set up already, so uvicorn must not change it.
        app = Inspector(target, token)
        serve_asgi(app, sockets, on_started=started, log_config=None, log_level=None)
