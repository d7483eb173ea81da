"""The Typer application with all commands."""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from coreason_client import __version__

from .a2a import app as a2a
from .chat import EPILOG as CHAT_EPILOG
from .chat import chat
from .completion import COMPLETION_EPILOG, completion
from .exits import EXIT_CODES_HELP
from .inspect import EPILOG as INSPECT_EPILOG
from .inspect import inspect
from .llm import EPILOG as LLM_EPILOG
from .llm import LOGS_EPILOG, MODELS_EPILOG, llm, logs, models
from .output import print_stdout
from .profiles import PROFILES_EPILOG, profiles
from .serve import EPILOG as SERVE_EPILOG
from .serve import ServeCommand, serve
from .store import app as store


class CommandGroup(TyperGroup):
    """Finds `llm logs` beside `llm`, which takes any other words as a question."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and the rest of the arguments."""
        name = " ".join(args[:2])
        if len(args) > 1 and (command := self.get_command(ctx, name)) is not None:
            return name, command, args[2:]
        return super().resolve_command(ctx, args)


_EPILOG = f"""\
\b
Examples:
  coreason chat
  coreason chat "How do I resume a stream?"
  coreason serve my_module:agent --store sqlite:streams.db
  coreason inspect http://127.0.0.1:8000
  coreason llm "Why is the sky blue?"
  coreason a2a stream https://agent.example "Hello"

{EXIT_CODES_HELP}
"""

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        print_stdout(f"coreason {__version__}")
        raise typer.Exit


@app.callback(epilog=_EPILOG)
def _coreason(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Talk to agents and models without losing a word, and serve your own."""
    # A character that the locale cannot encode becomes a question mark, not a traceback.
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")


app.command(epilog=CHAT_EPILOG)(chat)
# Summaries that fit beside the names.
_SERVE = "Serve an agent over HTTP: your own, a model or the guide."
_INSPECT = "Show an agent in the browser, with every packet."
app.command(epilog=SERVE_EPILOG, short_help=_SERVE, cls=ServeCommand)(serve)
app.command(epilog=INSPECT_EPILOG, short_help=_INSPECT)(inspect)
app.command(epilog=LLM_EPILOG)(llm)
app.command("llm models", epilog=MODELS_EPILOG, hidden=True)(models)
app.command("llm logs", epilog=LOGS_EPILOG, hidden=True)(logs)
app.add_typer(a2a, name="a2a")
app.add_typer(store, name="store")
app.command(epilog=PROFILES_EPILOG)(profiles)
app.command(epilog=COMPLETION_EPILOG)(completion)
