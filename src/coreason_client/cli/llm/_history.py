"""The conversation that a question belongs to: its earlier turns, and where it is saved."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

from .._user_folders import user_file
from ..exits import ExitCode, Failure
from ..output import print_stderr
from ._store import ConversationStore, StoreError
from ._turns import SavedTurn

_ID_BYTES = 8


@dataclass(frozen=True, slots=True)
class SavedConversation:
    """A conversation; `turns` is empty if it is new."""

    conversation: str
    turns: Sequence[SavedTurn]
    saves: bool

    def save(self, **fields: Any) -> bool:
        """Save a turn, and return True; on failure print a warning, because the answer counts.

        `fields` are those of `SavedTurn`, without `conversation` and `time`.
        """
        if not self.saves:
            return False
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            default_store().save(SavedTurn(conversation=self.conversation, time=now, **fields))
        except StoreError as error:
            with suppress(OSError):
                print_stderr(f"warning: the conversation is not saved: {error}")
            return False
        return True


def open_history(*, continue_last: bool, cid: str | None, saves: bool) -> SavedConversation:
    """Return the conversation to continue, or a new one.

    Raises:
        Failure: there is no such conversation, or it cannot be read.
    """
    if continue_last and cid is not None:
        raise Failure("--continue and --cid cannot be used together", ExitCode.USAGE)
    if not continue_last and cid is None:
        return SavedConversation(token_hex(_ID_BYTES), (), saves)
    store = default_store()
    conversation = _last(store) if cid is None else find_conversation(store, cid)
    return SavedConversation(conversation, store.turns(conversation), saves)


def find_conversation(store: ConversationStore, prefix: str, option: str = "--cid") -> str:
    """Return the id of the conversation that begins with a prefix.

    Raises:
        Failure: there is none, or several, or the file cannot be read.
    """
    if not prefix:
        raise Failure(f"{option} must not be empty", ExitCode.USAGE)
    return chosen_id(prefix, store.ids(prefix, MAX_CANDIDATES + 1), option)


def _last(store: ConversationStore) -> str:
    found = store.conversations(1)
    if not found:
        raise Failure("--continue: there is no saved conversation yet", ExitCode.USAGE)
    return found[0].conversation


def default_store(lock_timeout: float | None = None) -> ConversationStore:
    """Return the store in the data directory of the user.

    Raises:
        StoreError: the home directory is unknown.
    """
    try:
        path = user_file("data", "conversations.db")
    except RuntimeError as error:
        raise StoreError(str(error)) from None
    return ConversationStore(path, lock_timeout)


def without_query(url: str | None) -> str | None:
    """Return a base URL without its query, which may contain a key."""
    return url if url is None else urlsplit(url)._replace(query="", fragment="").geturl()


# The conversation that `--continue` or `--cid` means

MAX_CANDIDATES = 5  # that an error names


def chosen_id(prefix: str, found: Sequence[str], option: str = "--cid") -> str:
    """Return the only id that begins with a prefix, or the id that is equal to it.

    `found` are the ids that begin with it; more than `MAX_CANDIDATES` need not be complete.

    Raises:
        Failure: there is none, or several.
    """
    if prefix in found:
        return prefix
    if not found:
        raise Failure(
            f"{option}: there is no conversation {prefix!r}; coreason llm logs lists them",
            ExitCode.USAGE,
        )
    if len(found) > 1:
        named = ", ".join(found[:MAX_CANDIDATES])
        more = ", …" if len(found) > MAX_CANDIDATES else ""
        raise Failure(
            f"{option}: {len(found) if not more else 'several'} conversations begin with "
            f"{prefix!r}: {named}{more}; give more of the ID",
            ExitCode.USAGE,
        )
    return found[0]


def check_place(last: SavedTurn, base_url: str | None) -> None:
    """Check that a conversation continues at the API where its last turn was held.

    Otherwise the conversation, perhaps one with a model on this machine, would be sent to another
    provider unnoticed.

    Raises:
        Failure: it would be sent to another API.
    """
    if last.base_url == base_url:
        return
    before = last.base_url or f"the API of {last.provider or 'the model'}"
    now = base_url or "the API of the model"
    remedy = f"add --base-url {last.base_url}" if last.base_url else "unset LLM_API_BASE_URL"
    raise Failure(
        f"conversation {last.conversation} was held at {before} and would continue at {now}: "
        f"{remedy}, or choose a model with --model",
        ExitCode.USAGE,
    )
