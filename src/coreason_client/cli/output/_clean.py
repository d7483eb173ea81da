"""Removes terminal control sequences from the text of agents, models and servers. Pure.

Well-formed escape sequences are removed as a whole. Of anything else only the control characters
are removed, so words are never taken for a sequence. A string sequence (OSC, DCS, ...) without an
end in its line and within `_MAX_STRING` characters counts as text.
"""

import re

__all__ = ["Cleaner", "clean", "escaped_json"]

_MAX_STRING = 1024
_CSI = "(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
_STRING = f"(?:\x1b[\\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x00-\x1f\x7f-\x9f]{{0,{_MAX_STRING}}}"
_CHARSET = "\x1b[()*+]"
_SEQUENCE = re.compile(f"{_CSI}[@-~]|{_STRING}(?:\x07|\x9c|\x1b\\\\)|{_CHARSET}[0-9A-Z]")
# The end of a piece that may continue as a sequence in the next piece.
_UNFINISHED = re.compile(f"(?:{_CSI}|{_STRING}\x1b?|{_CHARSET}|\x1b)\\Z")

# Control characters other than newline and tab, characters that override the text direction, and
# surrogates, which cannot be encoded.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """Return a complete text without escape sequences and control characters."""
    return text if text.isprintable() else _CONTROL.sub("", _SEQUENCE.sub("", text))


def escaped_json(line: str) -> str:
    """Return the same JSON with all control characters escaped; JSON allows some unescaped."""
    return line if line.isprintable() else _CONTROL.sub(_escape, line)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class Cleaner:
    """Cleans a text that arrives in pieces; a sequence may be split between pieces."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Add text; return what can be shown. An unfinished sequence is held back."""
        text, self._held = self._held + text, ""
        if unfinished := _UNFINISHED.search(text):
            text, self._held = text[: unfinished.start()], unfinished[0]
        return clean(text)

    def finish(self) -> str:
        """Return what was held back, cleaned, and start again with the next piece."""
        text, self._held = self._held, ""
        return clean(text)
