"""Answers that continue a given beginning: which models can, and what is new in an answer. Pure.

The last message of a call is the beginning of the answer: an assistant message with
`"prefix": True`. The rules:

* Which providers and models accept it, and in which form, is data (`providers/profiles.py`).
* The beginning is sent without white space at its end, which some providers reject. The same white
  space is removed from the start of the continuation, so the given beginning and the continuation
  together are the answer.
* A provider that repeats the beginning is known too: the repetition is removed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from ._answer import Answer
from ._profile import Profile
from ._reader import Piece
from .errors import LLMRequestError
from .types import Message, TextDelta

__all__ = [
    "FIELDS",
    "Continuation",
    "accepts_prefix",
    "check_continuation",
    "continuation_base",
    "continuation_fields",
    "continued",
    "prefix_of",
    "sent_messages",
]

FIELDS: Mapping[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}
"""The fields of a request to vLLM and llama.cpp whose last message is to be continued."""


def prefix_of(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the beginning of the answer that a call contains, None if there is none."""
    last = messages[-1]
    return last["content"] if "prefix" in last else None


def accepts_prefix(profile: Profile, model: str) -> bool:
    """Return True if a model can continue a given beginning of its answer."""
    if profile.prefix_form is None:
        return False
    return not profile.prefix_models or model.startswith(profile.prefix_models)


def check_continuation(profile: Profile, model: str) -> None:
    """Check that a model can continue a given beginning of its answer.

    Raises:
        LLMRequestError: it cannot.
    """
    if not accepts_prefix(profile, model):
        raise LLMRequestError(
            f"the model {model!r} of {profile.name} cannot continue a given beginning of its "
            "answer: leave out the message with prefix",
            model=model,
        )


def continuation_base(base: str, profile: Profile) -> str:
    """Return the base URL for a continuation, which is another one at some providers."""
    parts = urlsplit(base)
    if not profile.prefix_path or parts.hostname not in profile.hosts:
        return base
    return f"{parts.scheme}://{parts.netloc}{profile.prefix_path}"


def continuation_fields(prefix: str | None, profile: Profile) -> Mapping[str, Any]:
    """Return the fields that a request needs, so that the last message is continued."""
    wanted = profile.prefix_form == "continue_final_message" and prefix and prefix.strip()
    return FIELDS if wanted else {}


def sent_messages(messages: Sequence[Message], profile: Profile) -> Sequence[Message]:
    """Return the messages to send: the beginning without white space at its end."""
    prefix = prefix_of(messages)
    if prefix is None:
        return messages
    last = {key: value for key, value in messages[-1].items() if key != "prefix"}
    last["content"] = prefix.rstrip()
    if profile.prefix_form == "flag":
        last["prefix"] = True
    return [*messages[:-1], last] if last["content"] else messages[:-1]


class Continuation:
    """Removes from an answer what the given beginning already has.

    Text is held back only as long as it may be a repetition.
    """

    __slots__ = ("_held", "_new", "_repeated", "_space")

    def __init__(self, prefix: str, *, repeats: bool) -> None:
        sent = prefix.rstrip()
        self._space = prefix[len(sent) :]
        self._repeated = sent if repeats else ""
        self._held = ""
        self._new: list[str] = []

    @property
    def text(self) -> str:
        """The new text that `pieces` has returned."""
        return "".join(self._new)

    def add(self, text: str) -> str:
        """Return the new part of the answer so far, which may be empty."""
        if not self._repeated and not self._space:
            return text
        text, self._held = self._held + text, ""
        if self._repeated:
            if text.startswith(self._repeated):
                text = text[len(self._repeated) :]
            elif self._repeated.startswith(text):
                self._held = text
                return ""
            self._repeated = ""
        return self._without_space(text)

    def _without_space(self, text: str) -> str:
        """Remove the white space that the beginning ends with."""
        while text and self._space:
            if text[0] != self._space[0]:
                self._space = ""
            else:
                text, self._space = text[1:], self._space[1:]
        return text

    def flush(self) -> str:
        """Return the text that was held back, at the end of the answer."""
        text, self._held = self._held, ""
        return text

    def pieces(self, received: Sequence[Piece]) -> list[Piece]:
        """Return the new part of received pieces."""
        new: list[Piece] = []
        for piece in received:
            if isinstance(piece, TextDelta):
                text = self.add(piece.text)
                if text:
                    self._new.append(text)
                    new.append(TextDelta(text))
            else:
                new.append(piece)
        return new


def continued(answer: Answer, prefix: str | None, profile: Profile) -> Answer:
    """Return the answer without what the given beginning already has."""
    if prefix is None or not answer.content:
        return answer
    rest = Continuation(prefix, repeats=profile.repeats_prefix)
    return replace(answer, content=rest.add(answer.content) + rest.flush())
