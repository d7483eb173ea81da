"""`coreason llm`: a question to a model, without an agent."""

import logging
import sys
from typing import Annotated, TypeVar

import typer

from coreason_client import ArgumentError

from .._logs import show_logs
from .._options import BaseUrl, Verbose
from ..exits import EXIT_CODES_HINT, exit_codes
from ..profiles import complete_profile
from ._completion import complete_conversation, complete_model, complete_word

__all__ = ["EPILOG", "NO_LOG_VARIABLE", "llm", "number_or_none"]

NO_LOG_VARIABLE = "COREASON_LLM_NO_LOG"
EPILOG = f"""\
\b
Examples:
  coreason llm Why is the sky blue
  coreason llm -m anthropic/claude-sonnet-4-5 "Hello"
  git diff | coreason llm "Write a commit message." -t 0
  coreason llm -a photo.png "What is this?"
  coreason llm -c "And in French?"
  coreason llm --schema '{{"type": "object"}}' "Facts about Rome" | jq .
  coreason llm --tool my_module:get_weather "Do I need an umbrella in Rome?"
  coreason llm --json "Hello" | jq .usage
  coreason llm --base-url http://127.0.0.1:11434/v1 -m llama3.2 "Hello"
  coreason llm models anthropic
  coreason llm logs

The key is read from LLM_API_KEY or from the variable of the provider, such as ANTHROPIC_API_KEY, in
the environment or in .env. coreason llm models lists models, coreason llm logs the saved
conversations; both have a --help.

{EXIT_CODES_HINT}
"""


def llm(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="The question, with or without quotes; piped text is appended. A last - reads "
            "all of stdin.",
            show_default=False,
            autocompletion=complete_word,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="Name of the model, or provider/name.",
            show_default="that of the conversation, DEFAULT_MODEL, or gpt-4-turbo",
            autocompletion=complete_model,
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option("--system", "-s", metavar="TEXT", help="System prompt.", show_default=False),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Profile with llm and system, which are used unless -m and -s are given.",
            show_default=False,
            autocompletion=complete_profile,
        ),
    ] = None,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            "--attach",
            "-a",
            metavar="FILE|URL|-",
            help="File, URL, or stdin (-) to attach: text, image, PDF, audio; repeatable.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|JSON",
            help="JSON schema; prints a JSON value that conforms to it.",
            show_default=False,
        ),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Python function that the model may call; repeatable.",
            show_default=False,
        ),
    ] = None,
    continue_last: Annotated[
        bool, typer.Option("--continue", "-c", help="Continue the last conversation.")
    ] = False,
    cid: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Continue this conversation; the beginning of its ID is enough.",
            show_default=False,
            autocompletion=complete_conversation,
        ),
    ] = None,
    no_log: Annotated[
        bool,
        typer.Option("--no-log", envvar=NO_LOG_VARIABLE, help="Do not save the conversation."),
    ] = False,
    temperature: Annotated[
        str,
        typer.Option(
            "--temperature",
            "-t",
            metavar="T",
            help="Sampling temperature, 0 to 1, at some providers to 2; none uses the default of "
            "the provider.",
        ),
    ] = "0.7",
    max_tokens: Annotated[
        str,
        typer.Option(
            metavar="N",
            help="Maximum number of tokens in the answer; none uses the limit of the provider.",
        ),
    ] = "2000",
    base_url: BaseUrl = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream/--no-stream", help="Receive the answer as it is written, or all at once."
        ),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the response object.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Ask a model a question, or continue a conversation with it.

    The text goes to stdout as it arrives. In a terminal or with -v, the tokens and the cost go to
    stderr. Ctrl-C stops the answer and closes the connection. Conversations are saved on this
    machine; see coreason llm logs.
    """
    with exit_codes():
        # Logs must not be mixed with the answer unless -v asks for them.
        show_logs(verbose, default_level=logging.CRITICAL)
        from ._question_answer import Options, ask, with_profile

        model, system = with_profile(profile, model, system)
        ask(
            Options(
                words=words or (),
                model=model,
                system=system,
                attach=attach or (),
                schema=schema,
                tools=tool or (),
                continue_last=continue_last,
                cid=cid,
                saves=not no_log,
                temperature=number_or_none(temperature, "--temperature", float),
                max_tokens=number_or_none(max_tokens, "--max-tokens", int),
                base_url=base_url,
                stream=stream,
                as_json=as_json,
                show_usage=verbose > 0 or sys.stderr.isatty(),
            )
        )


T = TypeVar("T", int, float)


def number_or_none(text: str, option: str, kind: type[T]) -> T | None:
    """Return the number in a text, or None for "none".

    Raises:
        ArgumentError: it is neither.
    """
    if text.strip().lower() == "none":
        return None
    # Python's own rules also accept 1_000 and digits of other scripts.
    if text.isascii() and "_" not in text:
        try:
            return kind(text)
        except ValueError:
            pass
    rule = "must be a whole number, or none" if kind is int else "must be a number, or none"
    raise ArgumentError(option, rule, text)
