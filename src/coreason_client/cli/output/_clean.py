"""Text of agents, models and servers without what would control a terminal. Pure.

Whole escape sequences are removed where they are well-formed; of anything else only the control
characters go, so that a word is never taken for a sequence. A string sequence (OSC, DCS, ...) that
has no end within its line and within `_LONGEST` characters counts as text.
"""

import re

__all__ = ["Cleaner", "clean", "escaped_json"]

_LONGEST = 1024
_CSI = "(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
_STRING = f"(?:\x1b[\\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x00-\x1f\x7f-\x9f]{{0,{_LONGEST}}}"
_CHARSET = "\x1b[()*+]"
_SEQUENCE = re.compile(f"{_CSI}[@-~]|{_STRING}(?:\x07|\x9c|\x1b\\\\)|{_CHARSET}[0-9A-Z]")
# The end of a piece that the next piece may complete to a sequence.
_UNFINISHED = re.compile(f"(?:{_CSI}|{_STRING}\x1b?|{_CHARSET}|\x1b)\\Z")

# Control characters other than line end and tab, characters that change the direction of the text
# around them, and halves of characters, which cannot be encoded.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """Return a complete text without escape sequences and control characters."""
    return text if text.isprintable() else _CONTROL.sub("", _SEQUENCE.sub("", text))


def escaped_json(line: str) -> str:
    """Return the same JSON with the control characters escaped that JSON itself allows."""
    return line if line.isprintable() else _CONTROL.sub(_escape, line)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class Cleaner:
    """Cleans a text that arrives in pieces, whose sequences may be cut anywhere."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Return what can be shown of the text so far; an unfinished sequence is held back."""
        text, self._held = self._held + text, ""
        if unfinished := _UNFINISHED.search(text):
            text, self._held = text[: unfinished.start()], unfinished[0]
        return clean(text)

    def finish(self) -> str:
        """Return what was held back, cleaned; the next piece begins anew."""
        text, self._held = self._held, ""
        return clean(text)
