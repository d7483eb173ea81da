"""The packets that a stream has, whatever a fault makes of them on the wire. Pure."""

from dataclasses import dataclass, replace
from typing import Any, Final

from ._wire import Packet, number

EMOJI: Final = "\N{GRINNING FACE}"
_CLOSE: Final[tuple[str, str | dict[str, Any]]] = ("CLOSE", {"reason": "done"})


@dataclass(frozen=True, slots=True)
class LogPlan:
    """The arguments for the packets of a stream; `{n}` in the text is the packet's number."""

    stream_id: str
    count: int
    fault_after: int
    text: str

    def words(self, count: int | None = None) -> list[tuple[str, str | dict[str, Any]]]:
        """Return the numbered texts as DELTA payloads."""
        total = self.count if count is None else count
        return [("DELTA", self.text.replace("{n}", str(n))) for n in range(1, total + 1)]


def plain_log(plan: LogPlan) -> list[Packet]:
    """Build the words and a CLOSE, numbered from 1 without a gap."""
    return number(plan.stream_id, [*plan.words(), _CLOSE])


def emoji_log(plan: LogPlan) -> list[Packet]:
    """Build the plain log with a character of four bytes in every text."""
    return plain_log(replace(plan, text=plan.text + EMOJI))


def gap_log(plan: LogPlan, *, skip: int = 2) -> list[Packet]:
    """Build the plain log with numbers left out after the point of the fault."""
    ahead = plan.fault_after
    return [
        packet if packet.seq <= ahead else replace(packet, seq=packet.seq + skip)
        for packet in plain_log(plan)
    ]


def swapped_log(plan: LogPlan) -> list[Packet]:
    """Build the plain log with the two packets after the point of the fault swapped."""
    packets = plain_log(plan)
    at = plan.fault_after
    return [*packets[:at], packets[at + 1], packets[at], *packets[at + 2 :]]


def far_jump_log(plan: LogPlan) -> list[Packet]:
    """Build the plain log with one number far too high at the point of the fault."""
    packets = plain_log(plan)
    at = plan.fault_after
    return [*packets[:at], replace(packets[at], seq=999), *packets[at + 1 :]]


def low_close_log(plan: LogPlan) -> list[Packet]:
    """Build the plain log with a CLOSE whose number is not above the last one."""
    *words, last = plain_log(plan)
    return [*words, replace(last, seq=words[-1].seq)]


def stream_error(
    severity: str, *, retry_after: float | None = None, code: str = "model_unavailable"
) -> dict[str, Any]:
    """Build the payload of an ERROR packet."""
    error: dict[str, Any] = {"code": code, "message": f"a {severity} one", "severity": severity}
    return error if retry_after is None else error | {"details": {"retry_after": retry_after}}


def _with_error(plan: LogPlan, error: dict[str, Any]) -> list[Packet]:
    words = plan.words()
    at = plan.fault_after
    return number(plan.stream_id, [*words[:at], ("ERROR", error), *words[at:], _CLOSE])


def transient_log(plan: LogPlan, *, retry_after: float | None = None) -> list[Packet]:
    """Build the plain log with a TRANSIENT error at the point of the fault."""
    return _with_error(plan, stream_error("TRANSIENT", retry_after=retry_after))


def warning_log(plan: LogPlan) -> list[Packet]:
    """Build the plain log with a WARNING at the point of the fault."""
    return _with_error(plan, stream_error("WARNING"))


def fatal_log(plan: LogPlan) -> list[Packet]:
    """Build a log that ends with a FATAL error at the point of the fault."""
    return _with_error(plan, stream_error("FATAL"))[: plan.fault_after + 1]


def unfinished_log(plan: LogPlan) -> list[Packet]:
    """Build the words up to the point of the fault, and no end."""
    return number(plan.stream_id, plan.words(plan.fault_after))
