"""Errors of the store: which ones are transient, and the message for each."""

from ssl import SSLCertVerificationError

from redis import exceptions as store

from ...._valkey_address import Address
from ...errors import LogUnavailable
from ..remote._command_queue import PatienceExceeded

NO_ANSWER = "did not answer for"  # in the message about a silent store; log lines repeat it
# All errors of the client library; `RedisClusterException` is not a `RedisError`.
STORE_ERRORS = (store.RedisError, store.RedisClusterException, OSError)

# Transient errors, such as a store that is loading or busy, or a failover. All other errors would
# occur again on a retry.
_TRANSIENT = (
    store.ConnectionError,  # includes LOADING and "max number of clients reached"
    store.TimeoutError,
    store.ReadOnlyError,
    store.ClusterDownError,  # includes MASTERDOWN
    store.TryAgainError,
    store.RedisClusterException,
    OSError,
)
_ACCESS_DENIED = (
    store.AuthenticationError,
    store.AuthorizationError,
)  # subclasses of ConnectionError
_TRANSIENT_PREFIXES = (
    "BUSY ",
    "MASTERDOWN ",
    "NOREPLICAS ",
    "UNBLOCKED ",
)  # replies without their own class
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
_MIN_REPORTED_BLOCKING = 1.0  # seconds; shorter times are not mentioned


class ForeignValue(Exception):
    """A value in the store was not written by the log."""


class ReplicationNotConfirmed(store.ResponseError):
    """The store does not allow WAIT."""


class ReplicasMissing(store.ConnectionError):
    """Too few replicas have a write; it is neither kept for certain nor lost."""

    def __init__(self, confirmed: int, wanted: int) -> None:
        super().__init__(f"{confirmed} of {wanted} replicas confirmed the write")


def reply_error(text: str) -> Exception:
    """Return the exception of the client library for an error reply."""
    code, _, rest = text.partition(" ")
    kind = _CLASSES.get(code)
    try:
        if kind is not None:
            return kind(rest)
    except ValueError:  # a redirection without a node
        pass
    if text == "ERR max number of clients reached":
        return store.ConnectionError(text.removeprefix("ERR "))
    return store.ResponseError(text.removeprefix("ERR "))


def is_transient(error: Exception) -> bool:
    """Return True for a transient error: a retry may succeed."""
    if isinstance(error, _ACCESS_DENIED) or _is_certificate_error(error):
        return False
    return isinstance(error, _TRANSIENT) or str(error).startswith(_TRANSIENT_PREFIXES)


def unreachable(address: Address, patience: float, exceeded: PatienceExceeded) -> LogUnavailable:
    """Return the error for a store that did not answer, or had transient errors, for `patience`."""
    error = exceeded.error
    if isinstance(error, store.ReadOnlyError):
        message = (
            f"the store {address.shown} is a read-only replica and did not become a primary "
            f"within {patience:g} s: give the log the address of the primary"
        )
    elif isinstance(error, ReplicasMissing):
        message = (
            f"the store {address.shown} has too few replicas: {error} within {patience:g} s. "
            "Connect more replicas, or lower the number of replicas that the log asks for"
        )
    elif isinstance(error, _TRANSIENT_REPLIES):
        reason = _reason(address, error)
        message = f"the store {address.shown} rejected commands for {patience:g} s: {reason}"
    else:
        why = "" if error is None else f": {_reason(address, error)}"
        message = f"the store {address.shown} {NO_ANSWER} {patience:g} s{why}"
    if not exceeded.sent:
        message += " (this command was still in the queue and was not sent)"
    if exceeded.blocked >= _MIN_REPORTED_BLOCKING:
        message += f" (this process itself was blocked for another {exceeded.blocked:.1f} s)"
    return LogUnavailable(message)


def rejected(address: Address, prefix: str, error: Exception) -> LogUnavailable:
    """Return the error for a store that rejects a command."""
    reason = _reason(address, error)
    if _is_certificate_error(error):
        return LogUnavailable(f"the store {address.shown} has an untrusted certificate: {reason}")
    if isinstance(error, store.AskError | store.ClusterCrossSlotError):  # includes MOVED
        return LogUnavailable(
            f"the store {address.shown} is a node of a cluster: pass cluster=True to the log"
        )
    if isinstance(error, store.NoPermissionError):
        return LogUnavailable(
            f"the store {address.shown} denies access: {reason} (the log needs the keys and "
            f"channels {prefix}:*, and the commands listed in docs/scaling.md)"
        )
    if isinstance(error, _ACCESS_DENIED):
        return LogUnavailable(f"the store {address.shown} denies access: {reason}")
    if isinstance(error, store.OutOfMemoryError):
        return LogUnavailable(
            f"the store {address.shown} is full: it has reached its maxmemory. Raise maxmemory, or "
            f"shorten the retention of streams ({reason})"
        )
    if reason.startswith("WRONGTYPE"):
        return foreign_data(address, prefix, "a key has another type")
    return LogUnavailable(f"the store {address.shown} rejected the command: {reason}")


def foreign_data(address: Address, prefix: str, what: str) -> LogUnavailable:
    """Return the error for data that the log did not write."""
    return LogUnavailable(
        f"the store {address.shown} has other data under the prefix {prefix!r}: {what}. Use a "
        "prefix that no other program uses"
    )


def _is_certificate_error(error: Exception) -> bool:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SSLCertVerificationError):
        cause = cause.__context__
    return cause is not None


def _reason(address: Address, error: Exception) -> str:
    return address.redact(str(error)) or type(error).__name__
