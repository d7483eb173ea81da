"""Default limits for reconnecting a CAP stream; `RetryBudget` applies them."""

__all__ = ["DEFAULT_MAX_RETRIES", "DEFAULT_RECONNECT_FOR", "reconnect_seconds"]

DEFAULT_RECONNECT_FOR = 30.0


class _Default(int):
    """Marks the default value, because a 3 that the caller passes means exactly 3 reconnections."""


DEFAULT_MAX_RETRIES = _Default(3)


def reconnect_seconds(max_retries: int, reconnect_for: float | None) -> float:
    """Return for how many seconds a stream that has begun keeps reconnecting.

    The result is 0 if the caller passes `max_retries` and no `reconnect_for`: then only the number
    of reconnections counts.
    """
    if reconnect_for is not None:
        return reconnect_for
    return DEFAULT_RECONNECT_FOR if isinstance(max_retries, _Default) else 0.0
