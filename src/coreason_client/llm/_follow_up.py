"""Requests that follow an answer which broke or is not valid. Pure.

* Continuation. The text so far is sent as the beginning of the answer, for the model to continue
  it. What was produced is subtracted from `max_tokens`. Only plain text is continued: not a tool
  call, not reasoning, not JSON.
* Correction. An answer that does not match `response_format` is sent back with the reason.
"""

from dataclasses import replace

from ._answer import Answer
from ._assemble import estimate_text
from ._continuation import accepts_prefix
from ._plan import Plan
from .types import Message

__all__ = ["can_continue", "continuation", "correction"]


def can_continue(plan: Plan, received: Answer) -> bool:
    """Return True if the model can continue what was received of an answer."""
    only_text = not (received.calls or received.reasoning or received.media)
    plain = plan.call.schema is None and only_text and bool(received.content)
    return plain and accepts_prefix(plan.route.profile, plan.call.model)


def continuation(plan: Plan, text: str) -> Plan:
    """Return the plan that continues an answer after the given text.

    `plan` is that of the whole answer, which may itself have a given beginning.
    """
    call = plan.call
    before = call.messages if plan.prefix is None else call.messages[:-1]
    beginning: Message = {
        "role": "assistant",
        "content": (plan.prefix or "") + text,
        "prefix": True,
    }
    left = max(1, call.max_tokens - estimate_text(text))
    return plan.with_call(replace(call, messages=[*before, beginning], max_tokens=left))


def correction(plan: Plan, answer: str, reason: str) -> Plan:
    """Return the plan that asks the model to correct its answer."""
    asked = (
        f"This answer is not valid: it {reason}\n\n"
        "Send the complete, corrected answer, and nothing else."
    )
    messages = [
        *plan.call.messages,
        {"role": "assistant", "content": answer or "(empty)"},
        {"role": "user", "content": asked},
    ]
    return plan.with_call(replace(plan.call, messages=messages))
