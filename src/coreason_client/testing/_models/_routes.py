"""Which API a request to a fake model is for, by its path. Pure."""

import re

from ._anthropic_wire import ANTHROPIC
from ._bedrock_wire import BEDROCK
from ._chat_wire import CHAT
from ._gemini_wire import GEMINI
from ._ollama_wire import OLLAMA
from ._responses_wire import RESPONSES
from ._wire import Wire

__all__ = ["background_at", "embeddings_at", "model_list_at", "wire_at"]

_WIRES = (
    (re.compile(r"/chat/completions$"), CHAT),
    (re.compile(r"/responses$"), RESPONSES),
    (re.compile(r"/messages$"), ANTHROPIC),
    (re.compile(r":(?:streamG|g)enerateContent$"), GEMINI),
    (re.compile(r"/model/[^/]+/converse(?:-stream)?$"), BEDROCK),
    (re.compile(r"/api/chat$"), OLLAMA),
)
_BACKGROUND = (
    ("GET", re.compile(r"/responses/([^/]+)$"), "read"),
    ("POST", re.compile(r"/responses/([^/]+)/cancel$"), "cancel"),
)
_EMBEDDINGS = (
    (re.compile(r"/embeddings$"), "openai"),
    (re.compile(r":batchEmbedContents$"), "gemini"),
    (re.compile(r":predict$"), "vertex"),
    (re.compile(r"/api/embed$"), "ollama"),
    (re.compile(r"/model/[^/]+/invoke$"), "bedrock"),
)
_LISTS = (
    (re.compile(r"/v1beta/models$"), "gemini"),
    (re.compile(r"/models$"), "openai"),
    (re.compile(r"/api/tags$"), "ollama"),
    (re.compile(r"/foundation-models$"), "bedrock"),
)


def wire_at(method: str, path: str) -> Wire | None:
    """Return the wire of a request for an answer, None if it is for something else."""
    found = (wire for pattern, wire in _WIRES if pattern.search(path))
    return next(found, None) if method == "POST" else None


def background_at(method: str, path: str) -> tuple[str, str] | None:
    """Return "read" or "cancel" and the id of a background response, None for other requests."""
    for known, pattern, what in _BACKGROUND:
        if method == known and (found := pattern.search(path)):
            return what, found[1]
    return None


def embeddings_at(method: str, path: str) -> str | None:
    """Return the format of a request for embeddings, None if it is for something else."""
    found = (name for pattern, name in _EMBEDDINGS if pattern.search(path))
    return next(found, None) if method == "POST" else None


def model_list_at(method: str, path: str) -> str | None:
    """Return the format of a request for the list of models, None if it is for something else."""
    found = (name for pattern, name in _LISTS if pattern.search(path))
    return next(found, None) if method == "GET" else None
