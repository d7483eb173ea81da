"""The conversation that `--continue` or `--cid` means, and where it may continue. Pure."""

from collections.abc import Sequence

from ..exits import ExitCode, Failure
from ._turns import Turn

__all__ = ["MAX_CANDIDATES", "check_place", "chosen_id"]

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


def check_place(last: Turn, base_url: str | None) -> None:
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
