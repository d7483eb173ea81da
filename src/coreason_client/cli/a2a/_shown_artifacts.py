"""The artifacts that a conversation has already shown. No I/O.

An agent may begin each answer with the whole task, which has the artifacts of earlier turns again.
"""

import json
from typing import Any

from coreason_client.a2a import Artifact, Part

__all__ = ["ShownArtifacts"]


class ShownArtifacts:
    """The content of the artifacts so far, by task and artifact."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str | None, str], list[Part]] = {}

    def add(self, task_id: str | None, artifact: Artifact, *, append: bool) -> None:
        """Record an artifact, or more of it, that is shown now."""
        key = (task_id, artifact.artifact_id)
        before = self._parts.get(key, []) if append else []
        self._parts[key] = [*before, *artifact.parts]

    def has(self, task_id: str | None, artifact: Artifact) -> bool:
        """Return True if exactly this artifact has been shown."""
        shown = self._parts.get((task_id, artifact.artifact_id))
        return shown is not None and _content(shown) == _content(artifact.parts)


def _content(parts: list[Part]) -> list[Any]:
    """Return what the parts show: pieces of text that follow each other are one text."""
    content: list[Any] = [""]
    for part in parts:
        if part.text is None:
            content += [json.dumps(part.dump(), sort_keys=True), ""]
        else:
            content[-1] += part.text
    return content
