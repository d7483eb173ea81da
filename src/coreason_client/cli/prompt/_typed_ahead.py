"""Takes what was typed while no prompt was shown out of the buffer of the terminal."""

import os
import sys
from contextlib import suppress

__all__ = ["typed_ahead"]

_CHUNK = 65536

if sys.platform != "win32":
    import termios

    def typed_ahead(fd: int) -> str:
        """Return the pending lines, also an unfinished one; an Enter is a line break.

        The terminal gives out unfinished lines only while it does not wait for their end.
        """
        try:
            saved = termios.tcgetattr(fd)
            attributes = list(saved)
            attributes[3] &= ~termios.ICANON
            attributes[6] = [*saved[6]]
            attributes[6][termios.VMIN] = attributes[6][termios.VTIME] = 0
            termios.tcsetattr(fd, termios.TCSANOW, attributes)
        except (OSError, termios.error):
            return ""
        try:
            return _read_all(fd).decode(errors="replace").replace("\r", "\n")
        finally:
            with suppress(OSError, termios.error):
                termios.tcsetattr(fd, termios.TCSANOW, saved)

    def _read_all(fd: int) -> bytes:
        data = b""
        with suppress(OSError):
            while piece := os.read(fd, _CHUNK):
                data += piece
        return data

else:

    def typed_ahead(fd: int) -> str:
        """Return nothing: the console keeps the keys for the editor."""
        return ""
