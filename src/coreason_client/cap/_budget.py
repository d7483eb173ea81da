"""The defaults of the retry budget of a CAP stream; the budget itself is in `_retry_budget`."""

__all__ = ["DEFAULT_MAX_RETRIES", "DEFAULT_RECONNECT_FOR", "reconnect_seconds"]

DEFAULT_RECONNECT_FOR = 30.0


class _Default(int):
    """An int that is known to be the default: a caller's own 3 means exactly 3 reconnections."""


DEFAULT_MAX_RETRIES = _Default(3)


def reconnect_seconds(max_retries: int, reconnect_for: float | None) -> float:
    """Return how long a stream that has begun keeps reconnecting, whatever `max_retries` says.

    A caller who passes `max_retries` and no `reconnect_for` gets exactly that many.
    """
    if reconnect_for is not None:
        return reconnect_for
    return DEFAULT_RECONNECT_FOR if isinstance(max_retries, _Default) else 0.0
