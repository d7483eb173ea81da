"""Reads the description of a tool and of its parameters from a docstring. No I/O."""

import inspect
import re
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Described", "read_docstring"]

# Section titles of Google's style; the text before the first one describes the tool.
_SECTIONS = (
    "Args",
    "Arguments",
    "Parameters",
    "Returns",
    "Return",
    "Yields",
    "Raises",
    "Example",
    "Examples",
    "Note",
    "Notes",
)
_HEADER = re.compile(rf"(?:{'|'.join(_SECTIONS)}):")
_PARAMETER_HEADERS = frozenset({"Args:", "Arguments:", "Parameters:"})
_PARAMETER = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


class Described(NamedTuple):
    """The description of a function, and that of each parameter in its `Args:` section."""

    description: str
    parameters: dict[str, str]


def read_docstring(docstring: str | None) -> Described:
    """Return the descriptions in a docstring."""
    lines = inspect.cleandoc(docstring or "").split("\n")
    headers = [number for number, line in enumerate(lines) if _HEADER.fullmatch(line.rstrip())]
    end = headers[0] if headers else len(lines)
    parameters: dict[str, str] = {}
    for begin, after in pairwise([*headers, len(lines)]):
        if lines[begin].rstrip() in _PARAMETER_HEADERS:
            parameters |= _read_parameters(lines[begin + 1 : after])
    return Described("\n".join(lines[:end]).strip(), parameters)


def _read_parameters(lines: list[str]) -> dict[str, str]:
    """Return the description of each parameter; deeper lines continue the one above."""
    texts: dict[str, list[str]] = {}
    current: list[str] = []
    depth: int | None = None
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        if indent == 0:  # text after the section
            break
        depth = indent if depth is None else depth
        found = _PARAMETER.fullmatch(line.strip()) if indent <= depth else None
        if found is not None:
            current = texts[found[1]] = [found[2]]
        else:
            current.append(line.strip())
    return {name: " ".join(filter(None, pieces)) for name, pieces in texts.items()}
