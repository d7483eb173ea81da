"""An artifact so far, and the comparison of repeated parts with it. Pure.

Text is compared character by character, however it is divided into parts; other parts as a whole.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from .types import Artifact, Part

__all__ = ["PartialArtifact", "ReplayMatch", "compact"]

CompactPart: TypeAlias = Part | str
_TEXT_ONLY = {"text"}


def compact(parts: Sequence[Part]) -> list[CompactPart]:
    """Return the parts in compact form: a part that is only text becomes a string.

    A stream may have many thousands of parts; strings cost the garbage collector nothing.
    """
    return [
        part.text if part.text is not None and part.model_fields_set == _TEXT_ONLY else part
        for part in parts
    ]


def _plain_text(part: CompactPart) -> str | None:
    return part if isinstance(part, str) else part.text


def _tokens(parts: list[CompactPart]) -> list[str | Part]:
    """Return the parts with adjacent texts joined, because the division of text has no meaning."""
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


class ReplayMatch:
    """Compares repeated parts with those that were delivered."""

    def __init__(self, delivered: list[CompactPart]) -> None:
        self._delivered = _tokens(delivered)
        self._index = 0
        self._offset = 0
        self.received: list[Part] = []
        self.contradicts = False

    @property
    def caught_up(self) -> bool:
        """Whether everything that was delivered has been repeated."""
        return self._index == len(self._delivered)

    def skip_known(self, parts: Sequence[Part]) -> list[Part]:
        """Return the new parts; `contradicts` is set if they differ from what was delivered."""
        self.received.extend(parts)
        new_parts: list[Part] = []
        for part in parts:
            rest = part if self.caught_up else self._skip_known(part)
            if self.contradicts:
                return []
            if rest is not None and rest.text != "":
                new_parts.append(rest)
        return new_parts

    def _skip_known(self, part: Part) -> Part | None:
        text = _plain_text(part)
        if text is None:
            self.contradicts = self._delivered[self._index] != part
            self._index += 1
            return None
        while text and not self.caught_up:
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
    """An artifact so far.

    `sent_from_start` means that the current connection has sent it from its beginning.
    """

    __slots__ = ("artifact", "match", "parts", "sent_from_start")

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.parts = compact(artifact.parts)
        self.match: ReplayMatch | None = None
        self.sent_from_start = True

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join([_plain_text(part) or "" for part in self.parts])

    def as_artifact(self) -> Artifact:
        """Return the artifact with the parts so far."""
        parts = [Part(text=part) if isinstance(part, str) else part for part in self.parts]
        return self.artifact.model_copy(update={"parts": parts})

    def update_details(self, artifact: Artifact) -> None:
        """Apply the name, description, extensions and metadata of an update, if they are new."""
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

    def is_unchanged_by(self, update: Artifact) -> bool:
        """Return True if an update that appends to the artifact would change nothing."""
        if any(part.text != "" for part in update.parts):
            return False
        known = self.artifact
        self.update_details(update)
        return self.artifact is known

    def has_content(self, parts: Sequence[Part]) -> bool:
        """Return True if these are the parts so far, however their text is divided."""
        return _tokens(compact(parts)) == _tokens(self.parts)

    def lacks(self, parts: Sequence[Part]) -> bool:
        """Return True if the parts of the whole artifact contain more than was delivered."""
        return bool(ReplayMatch(self.parts).skip_known(parts))
