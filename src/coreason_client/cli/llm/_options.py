"""The options of `coreason llm`, and the shell completion of its commands, without network.

A problem with the saved conversations completes nothing: it must not disturb the command line.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import typer

from .._options import BaseUrl, Verbose, argument, flag, option
from ..exits import Failure
from ..profiles import complete_profile

NO_LOG_VARIABLE = "COREASON_LLM_NO_LOG"
_COMMANDS = {"models": "List the models of a provider.", "logs": "List the saved conversations."}
_MAX_CONVERSATIONS = 50
_LOCK_TIMEOUT = 0.2  # seconds


def complete_word(context: typer.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """Complete the first word, which may be a command."""
    first = not context.params.get("words")
    return [item for item in _COMMANDS.items() if first and item[0].startswith(incomplete)]


def complete_provider(incomplete: str) -> Iterable[str]:
    """Complete the name of a provider."""
    return _matching(_providers(), incomplete)


def complete_model(incomplete: str) -> Iterable[str]:
    """Complete a model: the default, those of saved conversations, and prefixes of providers."""
    default = os.environ.get("DEFAULT_MODEL", "")
    prefixes = (f"{name}/" for name in _providers())
    return _matching(filter(None, [default, *_known_models(), *prefixes]), incomplete)


def complete_conversation(incomplete: str) -> Iterable[tuple[str, str]]:
    """Complete the id of a conversation; its first question is shown beside it."""
    from .._text import as_local_time, shortened
    from ._history import default_store

    try:
        found = default_store(_LOCK_TIMEOUT).conversations(_MAX_CONVERSATIONS)
    except Failure:
        return []
    return [
        (one.conversation, f"{as_local_time(one.time)} {shortened(one.question)}")
        for one in found
        if one.conversation.startswith(incomplete)
    ]


def _providers() -> list[str]:
    from coreason_client.llm.providers.profiles import PROFILES

    return [profile.name for profile in PROFILES]


def _known_models() -> list[str]:
    from ._history import default_store

    try:
        return default_store(_LOCK_TIMEOUT).models()
    except Failure:
        return []


def _matching(names: Iterable[str], incomplete: str) -> Iterator[str]:
    return (name for name in dict.fromkeys(names) if name.startswith(incomplete))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions:
    """The values of all options of `coreason llm`; the help lists them in this order."""

    words: list[str] | None = argument(
        metavar="TEXT",
        help="The question, with or without quotes; piped text is appended. A last - reads "
        "all of stdin.",
        autocompletion=complete_word,
    )
    model: str | None = option(
        "--model",
        "-m",
        metavar="MODEL",
        help="Name of the model, or provider/name.",
        show_default="that of the conversation, DEFAULT_MODEL, or gpt-4-turbo",
        autocompletion=complete_model,
    )
    system: str | None = option("--system", "-s", metavar="TEXT", help="System prompt.")
    profile: str | None = option(
        metavar="NAME",
        help="Profile with llm and system, which are used unless -m and -s are given.",
        autocompletion=complete_profile,
    )
    attach: list[str] | None = option(
        "--attach",
        "-a",
        metavar="FILE|URL|-",
        help="File, URL, or stdin (-) to attach: text, image, PDF, audio; repeatable.",
    )
    schema: str | None = option(
        metavar="FILE|JSON", help="JSON schema; prints a JSON value that conforms to it."
    )
    tool: list[str] | None = option(
        metavar="MODULE:FUNCTION", help="Python function that the model may call; repeatable."
    )
    mcp: list[str] | None = option(
        metavar="COMMAND|URL", help="MCP server whose tools the model may call; repeatable."
    )
    continue_last: bool = flag("--continue", "-c", help="Continue the last conversation.")
    cid: str | None = option(
        metavar="ID",
        help="Continue this conversation; the beginning of its ID is enough.",
        autocompletion=complete_conversation,
    )
    no_log: bool = flag("--no-log", envvar=NO_LOG_VARIABLE, help="Do not save the conversation.")
    temperature: str = option(
        "--temperature",
        "-t",
        default="0.7",
        metavar="T",
        help="Sampling temperature, 0 to 1, at some providers to 2; none uses the default of "
        "the provider.",
    )
    max_tokens: str = option(
        default="2000",
        metavar="N",
        help="Maximum number of tokens in the answer; none uses the limit of the provider.",
    )
    base_url: BaseUrl = None
    stream: bool = option(
        "--stream/--no-stream",
        default=True,
        help="Receive the answer as it is written, or all at once.",
    )
    as_json: bool = flag("--json", help="Print the response object.")
    verbose: Verbose = 0
