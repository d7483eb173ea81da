"""Errors of the store: which of them are transient, and the sentence that each one becomes."""

from ssl import SSLCertVerificationError

from redis import exceptions as store

from ...errors import LogUnavailable
from ._address import Address

__all__ = [
    "STORE_ERRORS",
    "ForeignValue",
    "LaneStopped",
    "StoreSilent",
    "foreign",
    "gave_up",
    "is_passing",
    "refusal",
    "reply_error",
]

# Whatever the client library raises; `RedisClusterException` stands beside its root.
STORE_ERRORS = (store.RedisError, store.RedisClusterException, OSError)

# Transient errors: the store is loading or busy, or a new primary is being found. Every other
# reply would be the same the next time.
_PASSING = (
    store.ConnectionError,  # with LOADING and "max number of clients reached"
    store.TimeoutError,
    store.ReadOnlyError,
    store.ClusterDownError,  # with MASTERDOWN
    store.TryAgainError,
    store.RedisClusterException,
    OSError,
)
_FOR_GOOD = (store.AuthenticationError, store.AuthorizationError)  # each a ConnectionError
_PASSING_WORDS = ("BUSY ", "MASTERDOWN ", "NOREPLICAS ")  # these have no class of their own
_TRANSIENT_REPLIES = (store.ResponseError, store.BusyLoadingError)
_CLASSES: dict[str, type[store.RedisError]] = {
    "ASK": store.AskError,
    "CLUSTERDOWN": store.ClusterDownError,
    "CROSSSLOT": store.ClusterCrossSlotError,
    "LOADING": store.BusyLoadingError,
    "MASTERDOWN": store.MasterDownError,
    "MOVED": store.MovedError,
    "NOAUTH": store.AuthenticationError,
    "NOPERM": store.NoPermissionError,
    "NOSCRIPT": store.NoScriptError,
    "OOM": store.OutOfMemoryError,
    "READONLY": store.ReadOnlyError,
    "TRYAGAIN": store.TryAgainError,
    "WRONGPASS": store.AuthenticationError,
}
_WORTH_TELLING = 1.0  # seconds in which this process was blocked


class ForeignValue(Exception):
    """A value in the store is none that the log has written."""


class LaneStopped(Exception):
    """The log was stopped before the command had its reply."""


class StoreSilent(Exception):
    """The store did not answer, or refused with transient errors, for as long as the patience.

    `sent` is False when the command was still in the queue; `blocked` is for how many seconds
    this process itself did not run meanwhile, which are not part of the patience; `error` is the
    latest transient error, None if there was none.
    """

    def __init__(self, *, sent: bool, blocked: float, error: Exception | None) -> None:
        super().__init__()
        self.sent = sent
        self.blocked = blocked
        self.error = error


def reply_error(text: str) -> Exception:
    """Return an error reply as the exception that the client library has for it."""
    code, _, rest = text.partition(" ")
    kind = _CLASSES.get(code)
    try:
        if kind is not None:
            return kind(rest)
    except ValueError:  # a redirection that names no node
        pass
    if text == "ERR max number of clients reached":
        return store.ConnectionError(text.removeprefix("ERR "))
    return store.ResponseError(text.removeprefix("ERR "))


def is_passing(error: Exception) -> bool:
    """Return True for a transient error: another attempt may succeed."""
    if isinstance(error, _FOR_GOOD) or _is_certificate_error(error):
        return False
    return isinstance(error, _PASSING) or str(error).startswith(_PASSING_WORDS)


def gave_up(address: Address, patience: float, silent: StoreSilent) -> LogUnavailable:
    """Describe a store that was silent, or refused with transient errors, for so long."""
    error = silent.error
    if isinstance(error, store.ReadOnlyError):
        sentence = (
            f"the store {address.shown} is a read-only replica, and did not become a primary "
            f"within {patience:g} s: give the log the address of the primary"
        )
    elif isinstance(error, _TRANSIENT_REPLIES):
        sentence = f"the store {address.shown} refused for {patience:g} s: {_words(address, error)}"
    else:
        why = "" if error is None else f": {_words(address, error)}"
        sentence = f"the store {address.shown} did not answer for {patience:g} s{why}"
    if not silent.sent:
        sentence += " (this command was still in the queue, and was not sent)"
    if silent.blocked >= _WORTH_TELLING:
        sentence += f" (this process itself was blocked for another {silent.blocked:.1f} s)"
    return LogUnavailable(sentence)


def refusal(address: Address, prefix: str, error: Exception) -> LogUnavailable:
    """Describe a store that answers, and refuses."""
    words = _words(address, error)
    if _is_certificate_error(error):
        return LogUnavailable(f"the store {address.shown} cannot be trusted: {words}")
    if isinstance(error, store.AskError | store.ClusterCrossSlotError):  # with MOVED
        return LogUnavailable(
            f"the store {address.shown} is a node of a cluster: give the log cluster=True"
        )
    if isinstance(error, store.NoPermissionError):
        return LogUnavailable(
            f"the store {address.shown} denies access: {words} (the log needs the keys and "
            f"channels {prefix}:*, and the commands that the guide to scaling lists)"
        )
    if isinstance(error, _FOR_GOOD):
        return LogUnavailable(f"the store {address.shown} denies access: {words}")
    if isinstance(error, store.OutOfMemoryError):
        return LogUnavailable(
            f"the store {address.shown} is full: it uses more memory than its setting maxmemory "
            f"allows. Raise maxmemory, or keep streams for a shorter time (retention) ({words})"
        )
    if words.startswith("WRONGTYPE"):
        return foreign(address, prefix, "a key is of another type")
    return LogUnavailable(f"the store {address.shown} refuses to work: {words}")


def foreign(address: Address, prefix: str, what: str) -> LogUnavailable:
    """Describe a store that holds what the log did not write."""
    return LogUnavailable(
        f"the store {address.shown} holds other data under {prefix!r}: {what}. Give the log a "
        "prefix that nothing else uses"
    )


def _is_certificate_error(error: Exception) -> bool:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SSLCertVerificationError):
        cause = cause.__context__
    return cause is not None


def _words(address: Address, error: Exception) -> str:
    return address.redact(str(error)) or type(error).__name__
