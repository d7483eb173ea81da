"""Errors as adapters report them, before they are classified."""

from dataclasses import dataclass

__all__ = ["EventsLost", "Fault", "FaultReceived", "Malformed"]


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as the provider describes it.

    `codes` are all error codes that the provider sent, the most specific first. `status` is the
    HTTP status given in the body, `param` the parameter that is wrong. `request_id` is used if no
    header has one.
    """

    message: str
    codes: tuple[str, ...] = ()
    status: int | None = None
    param: str | None = None
    retry_after: float | None = None
    request_id: str | None = None


class FaultReceived(Exception):
    """A stream delivered an error instead of the rest of the answer."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Malformed(Exception):
    """The data received does not follow the wire format; `code` is an error code, if any."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class EventsLost(Exception):
    """Events of a stream are missing, which is the same as a lost connection."""
