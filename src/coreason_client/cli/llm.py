"""`coreason llm`: one question to a model, without an agent."""

import json
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._logs import show_logs
from ._options import Verbose
from ._question import TextArguments, question
from ._usage import usage_line
from .exits import EXIT_CODES_HELP, exit_codes
from .output import open_output, print_dimmed

if TYPE_CHECKING:
    from coreason_client.llm import AsyncLLMClient, Message, Response

__all__ = ["llm"]

EPILOG = f"""\
\b
Examples:
  coreason llm "Why is the sky blue?"
  coreason llm --model anthropic/claude-sonnet-4-5 "Hello"
  git diff | coreason llm "Write a commit message." --temperature 0
  coreason llm --json "Hello" | jq .usage
  coreason llm --base-url http://127.0.0.1:11434/v1 --model llama3.2 "Hello"

The key is read from LLM_API_KEY or from the variable of the provider, such as ANTHROPIC_API_KEY, in
the environment or in .env.

{EXIT_CODES_HELP}
"""


def llm(
    arguments: TextArguments = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Name of the model, or provider/name.",
            show_default="DEFAULT_MODEL or gpt-4-turbo",
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
        int, typer.Option(metavar="N", help="Maximum number of tokens in the answer.")
    ] = 2000,
    base_url: Annotated[
        str | None,
        typer.Option(
            envvar="LLM_API_BASE_URL",
            metavar="URL",
            help="Base URL of the API that the key is for.",
            show_default="the provider's",
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream/--no-stream", help="Receive the answer as it is written, or all at once."
        ),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the response object.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Ask a model one question.

    The text goes to stdout as it arrives. In a terminal or with -v, the tokens and the cost go to
    stderr. Ctrl-C stops the answer and closes the connection.
    """
    with exit_codes():
        # Logs must not be mixed with the answer unless -v asks for them.
        show_logs(verbose, default_level=logging.CRITICAL)
        from ._llm_client import create_client

        client = create_client() if base_url is None else create_client(base_url=base_url)
        name = client.default_model if model is None else model
        call = {
            "messages": _messages(question(arguments), system),
            "model": name,
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        response = _show_answer(client, call, stream=stream, as_json=as_json)
        _print_notes(response, name, usage=verbose > 0 or sys.stderr.isatty())


def _messages(question: str, system: str | None) -> "list[Message]":
    system_messages = [] if system is None else [("system", system)]
    # Command line bytes that are not UTF-8 cannot be encoded in JSON.
    return [
        {"role": role, "content": text.encode("utf-8", "replace").decode()}
        for role, text in (*system_messages, ("user", question))
    ]


def _show_answer(
    client: "AsyncLLMClient", call: dict[str, Any], *, stream: bool, as_json: bool
) -> "Response":
    """Ask, and show the answer."""
    with open_output(as_json=as_json) as output:
        response = _call(client, call, output.write if stream else None)
        if not stream:
            output.write(response["data"]["content"] or "")
        output.record(lambda: json.dumps(response, ensure_ascii=False))
    return response


def _call(
    client: "AsyncLLMClient", call: dict[str, Any], write: Callable[[str], None] | None
) -> "Response":
    import asyncio  # only here, so that `coreason --help` is quick

    from coreason_client.llm import LLMError

    from ._llm_client import with_option_names

    try:
        # Ctrl-C cancels the task, which closes the connection.
        return asyncio.run(_call_async(client, call, write))
    except LLMError as error:
        raise with_option_names(error) from None


async def _call_async(
    client: "AsyncLLMClient", call: dict[str, Any], write: Callable[[str], None] | None
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


def _print_notes(response: "Response", model: str, *, usage: bool) -> None:
    """Print what is not part of the answer: warnings if it is incomplete, tokens and cost."""
    if response["data"]["finish_reason"] == "length":
        print_dimmed(
            "warning: the answer is truncated: it reached --max-tokens or the limit of the model"
        )
    if response["data"].get("filtered"):
        print_dimmed("warning: the provider's content filter removed a part of the answer")
    if usage:
        print_dimmed(usage_line(response.get("model", model), response["usage"]))
