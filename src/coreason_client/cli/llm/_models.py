"""`coreason llm models`: the models of a provider."""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._logs import show_logs
from .._options import BaseUrl, Verbose
from ..exits import epilog, exit_codes
from ..output import print_stderr, show_list
from ._options import complete_provider

if TYPE_CHECKING:
    from coreason_client.llm import ModelInfo

MODELS_EPILOG = epilog(
    "coreason llm models",
    "coreason llm models anthropic",
    "coreason llm models ollama --json | jq -r .id",
)


def models(
    provider: Annotated[
        str | None,
        typer.Argument(
            metavar="PROVIDER",
            help="Name of the provider.",
            show_default="that of DEFAULT_MODEL or the base URL",
            autocompletion=complete_provider,
        ),
    ] = None,
    base_url: BaseUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object per line.")] = False,
    verbose: Verbose = 0,
) -> None:
    """List the models of a provider, by the names that --model takes.

    Beside each one: the tokens of its context, if the provider sends them, and its name. In a
    pipe: the name for --model, the tokens of the context and of an answer, and its name.
    """
    with exit_codes():
        show_logs(verbose)
        found = _fetch(provider, base_url)
        row = partial(model_row, provider=provider, for_people=sys.stdout.isatty())
        show_list(found, partial(json.dumps, ensure_ascii=False), row, as_json=as_json)
        if not found:
            print_stderr("the provider lists no models")


def _fetch(provider: str | None, base_url: str | None) -> "Sequence[ModelInfo]":
    import asyncio  # only here, so that `coreason --help` is quick

    from .._load import create_client, with_option_names

    client = create_client(base_url)
    from coreason_client.llm import LLMError

    async def fetch() -> "Sequence[ModelInfo]":
        async with client:
            return await client.models(provider)

    try:
        found = asyncio.run(fetch())
    except LLMError as error:
        raise with_option_names(error) from None
    return sorted(found, key=lambda model: model["id"])


def model_row(
    model: Mapping[str, Any], provider: str | None, *, for_people: bool
) -> tuple[str, ...]:
    """Return the name that `--model` takes, the limits in tokens, and the name for people.

    `provider` is the argument of the command: if it is given, `--model` needs it as a prefix.
    """
    option = model["id"] if provider is None else f"{provider}/{model['id']}"
    window, output = model.get("context_window"), model.get("max_output_tokens")
    name = model.get("name", "")
    if not for_people:
        return option, str(window or ""), str(output or ""), name
    limits = f"{window:,} tokens" if window else ""
    return option, limits, "" if name == model["id"] else name, ""
