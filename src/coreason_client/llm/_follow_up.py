"""Calls that follow an answer which broke or is not valid. Pure.

* Continuation. The text so far is sent as the beginning of the answer, for the model to continue
  it. What was produced is subtracted from `max_tokens`. Only plain text is continued: not a tool
  call, not reasoning, not JSON.
* Correction. An answer that does not match `response_format` is sent back with the reason.
"""

from dataclasses import replace

from ._answer import Answer
from ._call import Call
from ._continuation import prefix_of
from ._token_estimate import estimate_text
from .types import Message

__all__ = ["continued_call", "corrected_call", "is_plain_text"]


def is_plain_text(call: Call, received: Answer) -> bool:
    """Return True if what was received of an answer is text that a model can continue."""
    only_text = not (received.calls or received.reasoning or received.media)
    return call.schema is None and only_text and bool(received.content)


def continued_call(call: Call, text: str) -> Call:
    """Return the call that continues an answer after the given text.

    `call` is that of the whole answer, which may itself have a given beginning.
    """
    given = prefix_of(call.messages)
    before = call.messages if given is None else call.messages[:-1]
    beginning: Message = {"role": "assistant", "content": (given or "") + text, "prefix": True}
    left = None if call.max_tokens is None else max(1, call.max_tokens - estimate_text(text))
    return replace(call, messages=[*before, beginning], max_tokens=left)


def corrected_call(call: Call, answer: str, reason: str) -> Call:
    """Return the call that asks the model to correct its answer."""
    asked = (
        f"This answer is not valid: it {reason}\n\n"
        "Send the complete, corrected answer, and nothing else."
    )
    messages = [
        *call.messages,
        {"role": "assistant", "content": answer or "(empty)"},
        {"role": "user", "content": asked},
    ]
    return replace(call, messages=messages)
