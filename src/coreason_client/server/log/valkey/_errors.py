"""What an error of the store means: try again, or give up with a sentence."""

from ssl import SSLCertVerificationError

from redis import exceptions as store

from ...errors import LogUnavailable
from ._address import Address

__all__ = ["STORE_ERRORS", "foreign", "is_passing", "refusal", "silence"]

# Whatever the client library raises; `RedisClusterException` stands beside its root.
STORE_ERRORS = (store.RedisError, store.RedisClusterException, OSError)

# Replies that another attempt may well not get: the store is loading or busy, or a new primary is
# being found. Everything else that a store replies would be the same the next time.
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


def is_passing(error: Exception) -> bool:
    """Whether another attempt may do better."""
    if isinstance(error, _FOR_GOOD) or _is_impostor(error):
        return False
    return isinstance(error, _PASSING) or str(error).startswith(_PASSING_WORDS)


def silence(address: Address, seconds: float, error: Exception | None) -> LogUnavailable:
    """A store that could not be reached for so long."""
    why = "" if error is None else f": {_words(address, error)}"
    return LogUnavailable(f"the store {address.shown} did not answer for {seconds:g} s{why}")


def refusal(address: Address, prefix: str, error: Exception) -> LogUnavailable:
    """A store that answers, and refuses."""
    words = _words(address, error)
    if _is_impostor(error):
        return LogUnavailable(f"the store {address.shown} cannot be trusted: {words}")
    if isinstance(error, store.MovedError | store.AskError):
        return LogUnavailable(
            f"the store {address.shown} is a node of a cluster: give the log cluster=True"
        )
    if isinstance(error, (*_FOR_GOOD, store.NoPermissionError)):
        return LogUnavailable(f"the store {address.shown} denies access: {words}")
    if words.startswith("WRONGTYPE"):
        return foreign(address, prefix, "a key is of another type")
    return LogUnavailable(f"the store {address.shown} refuses to work: {words}")


def foreign(address: Address, prefix: str, what: str) -> LogUnavailable:
    """A store that holds what the log did not write."""
    return LogUnavailable(
        f"the store {address.shown} holds other data under {prefix!r}: {what}. Give the log a "
        "prefix that nothing else uses"
    )


def _is_impostor(error: Exception) -> bool:
    """Whether the certificate of the store is none that we trust."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SSLCertVerificationError):
        cause = cause.__context__
    return cause is not None


def _words(address: Address, error: Exception) -> str:
    return address.scrub(str(error)) or type(error).__name__
