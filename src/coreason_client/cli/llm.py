"""`coreason llm`: ask a model directly, without an agent in between."""

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._logs import show_logs
from ._options import Verbose
from ._question import Words, question
from ._usage import usage_words
from .exits import EXIT_CODES_HELP, ending_well
from .output import aside, open_output

if TYPE_CHECKING:
    from coreason_client.llm import LLMClient, Message, Response

__all__ = ["llm"]

EPILOG = f"""\
\b
Examples:
  coreason llm "Why is the sky blue?"
  coreason llm --model anthropic/claude-sonnet-4-5 --system "Be brief." "Hello"
  git diff | coreason llm "Write a commit message." --temperature 0
  coreason llm --json "Hello" | jq .usage
  coreason llm --base-url http://127.0.0.1:11434/v1 --model llama3.2 "Hello"

The key is in LLM_API_KEY or in the variable of the provider, in the environment or in .env.

{EXIT_CODES_HELP}
"""


def llm(
    words: Words = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The model, as its provider names it, or as provider/model.",
            show_default="DEFAULT_MODEL, or else gpt-4-turbo",
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="System prompt.", show_default=False),
    ] = None,
    temperature: Annotated[
        float, typer.Option(metavar="T", help="Sampling temperature, 0 to 1.")
    ] = 0.7,
    max_tokens: Annotated[
        int, typer.Option(metavar="N", help="The most tokens of an answer.")
    ] = 2000,
    base_url: Annotated[
        str | None,
        typer.Option(
            envvar="LLM_API_BASE_URL",
            metavar="URL",
            help="The address that the key belongs to.",
            show_default="the provider's",
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream/--no-stream", help="Ask for the answer as it is written, or for all of it."
        ),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the response object.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Ask a model once; the text goes to stdout as it comes.

    What it used and cost goes to stderr, in a terminal or with -v. Ctrl-C stops the answer and
    closes the connection.
    """
    with ending_well():
        # An answer is not to be mixed with logs, unless somebody asks for them.
        show_logs(verbose, usual=logging.CRITICAL)
        from ._llm_client import client

        asked = client() if base_url is None else client(base_url=base_url)
        name = asked.default_model if model is None else model
        call = {
            "messages": _messages(question(words), system),
            "model": name,
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        response = _answered(asked, call, stream=stream, as_json=as_json)
        _tell(response, name, usage=verbose > 0 or sys.stderr.isatty())


def _messages(question: str, system: str | None) -> "list[Message]":
    told = [] if system is None else [("system", system)]
    # Bytes that were no UTF-8 on the command line cannot go into JSON.
    return [
        {"role": role, "content": text.encode("utf-8", "replace").decode()}
        for role, text in (*told, ("user", question))
    ]


def _answered(
    client: "LLMClient", call: dict[str, Any], *, stream: bool, as_json: bool
) -> "Response":
    """Ask, and show the answer."""
    with open_output(as_json=as_json) as output:
        response = _asked(client, call, output.write if stream else None)
        if not stream:
            output.write(response["data"]["content"] or "")
        output.record(lambda: json.dumps(response, ensure_ascii=False))
    return response


def _asked(
    client: "LLMClient", call: dict[str, Any], write: Callable[[str], None] | None
) -> "Response":
    from coreason_client.llm import LLMError

    from ._llm_client import with_option_names

    try:
        # Ctrl-C cancels what runs, which closes the connection on its way out.
        return asyncio.run(_ask(client, call, write))
    except LLMError as error:
        raise with_option_names(error) from None


async def _ask(
    client: "LLMClient", call: dict[str, Any], write: Callable[[str], None] | None
) -> "Response":
    from coreason_client.llm import TextDelta

    async with client:
        if write is None:
            return await client.generate(**call)
        async with client.stream(**call) as answer:
            async for delta in answer:
                if isinstance(delta, TextDelta):
                    write(delta.text)
            return await answer.result()


def _tell(response: "Response", model: str, *, usage: bool) -> None:
    """Say what is no part of the answer: that it is not all there, and what it took."""
    if response["data"]["finish_reason"] == "length":
        aside("warning: the answer is cut off: it reached --max-tokens, or the model's own limit")
    if response["data"].get("filtered"):
        aside("warning: the provider's filter took a part of the answer away")
    if usage:
        aside(usage_words(response.get("model", model), response["usage"]))
