"""An artifact so far, and how parts that are sent again are compared with it. Pure.

Text is compared character by character, whatever parts it is cut into; other parts as a whole.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from .types import Artifact, Part

__all__ = ["Match", "PartialArtifact", "kept"]

Kept: TypeAlias = Part | str
_TEXT_ALONE = {"text"}


def kept(parts: Sequence[Part]) -> list[Kept]:
    """Return what is kept of parts: of a text without anything beside it, the string alone.

    A stream may have many thousand; strings cost the garbage collector nothing.
    """
    return [
        part.text if part.text is not None and part.model_fields_set == _TEXT_ALONE else part
        for part in parts
    ]


def _plain_text(part: Kept) -> str | None:
    return part if isinstance(part, str) else part.text


def _tokens(parts: list[Kept]) -> list[str | Part]:
    """Return the parts with neighbouring texts joined: how text is cut does not matter."""
    found: list[str | Part] = []
    texts: list[str] = []
    for part in parts:
        text = _plain_text(part)
        if isinstance(part, str) or text is not None:
            texts.append(text or "")
            continue
        if joined := "".join(texts):
            found.append(joined)
        texts = []
        found.append(part)
    if joined := "".join(texts):
        found.append(joined)
    return found


class Match:
    """Compares parts that are sent again with those that were delivered."""

    def __init__(self, delivered: list[Kept]) -> None:
        self._delivered = _tokens(delivered)
        self._index = 0
        self._offset = 0
        self.received: list[Part] = []
        self.contradicts = False

    @property
    def is_level(self) -> bool:
        """Whether all that was delivered has been sent again."""
        return self._index == len(self._delivered)

    def receive(self, parts: Sequence[Part]) -> list[Part]:
        """Return what goes beyond; `contradicts` is set when it does not fit at all."""
        self.received.extend(parts)
        beyond: list[Part] = []
        for part in parts:
            rest = part if self.is_level else self._receive(part)
            if self.contradicts:
                return []
            if rest is not None:
                beyond.append(rest)
        return beyond

    def _receive(self, part: Part) -> Part | None:
        text = _plain_text(part)
        if text is None:
            self.contradicts = self._delivered[self._index] != part
            self._index += 1
            return None
        while text and not self.is_level:
            delivered = self._delivered[self._index]
            if not isinstance(delivered, str):
                self.contradicts = True
                return None
            size = min(len(text), len(delivered) - self._offset)
            if not delivered.startswith(text[:size], self._offset):
                self.contradicts = True
                return None
            text = text[size:]
            self._offset += size
            if self._offset == len(delivered):
                self._index, self._offset = self._index + 1, 0
        return part.model_copy(update={"text": text}) if text else None


class PartialArtifact:
    """An artifact so far; `shown`: the present connection has sent it from its beginning."""

    __slots__ = ("artifact", "match", "parts", "shown")

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.parts = kept(artifact.parts)
        self.match: Match | None = None
        self.shown = True

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join([_plain_text(part) or "" for part in self.parts])

    def as_artifact(self) -> Artifact:
        """Return the artifact with the parts so far."""
        parts = [Part(text=part) if isinstance(part, str) else part for part in self.parts]
        return self.artifact.model_copy(update={"parts": parts})

    def describe(self, artifact: Artifact) -> None:
        """Take over what an update has beside the parts; most have nothing new."""
        known = self.artifact
        changes: dict[str, Any] = {
            name: value
            for name in ("name", "description", "extensions")
            if (value := getattr(artifact, name)) and value != getattr(known, name)
        }
        if artifact.metadata:
            metadata = {**(known.metadata or {}), **artifact.metadata}
            if metadata != known.metadata:
                changes["metadata"] = metadata
        if changes:
            self.artifact = known.model_copy(update=changes)

    def lacks(self, parts: Sequence[Part]) -> bool:
        """Return True if the parts, from the beginning, go beyond what was delivered."""
        return bool(Match(self.parts).receive(parts))
