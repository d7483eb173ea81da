"""Shell completion of models, conversations and commands, without network.

A problem with the saved conversations completes nothing: it must not disturb the command line.
"""

import os
from collections.abc import Iterable, Iterator

import typer

from ..exits import Failure

__all__ = ["complete_conversation", "complete_model", "complete_provider", "complete_word"]

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
