"""A file of keys that is read again when it changes, so that keys can be replaced.

Each line has one key, optionally a space and the name of its owner. Two keys with the same owner
are one principal: while clients move from the old key to the new one, both work.

The rules of reading it again:

* A change takes effect when two checks in a row have found the same version of the file: a file
  that somebody is writing is not read half-written.
* A file that cannot be read, or has an invalid line, changes nothing: the keys from before still
  apply. This is logged once for each version of the file.
* All keys are replaced in one step. A key that is in both versions is never refused.
"""

import asyncio
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from ..errors import ArgumentError
from ._private_file import Version, file_error, private_lines, read_private_file, version_of
from .http._auth import Keys

logger = logging.getLogger("coreason_client.server")

_ARGUMENT = "api_keys_file"
_INTERVAL = 1.0  # seconds between two checks of the file


class Settling:
    """Decides when to read a file again, from the versions that are seen. Pure."""

    __slots__ = ("_last", "_read")

    def __init__(self, read: Version) -> None:
        self._read = self._last = read

    def is_due(self, seen: Version) -> bool:
        """Return True if the file has changed, and not since the previous check."""
        settled, self._last = seen == self._last, seen
        return settled and seen != self._read

    def mark_read(self, version: Version) -> None:
        """Record the version that was read, also if it was invalid."""
        self._read = self._last = version


class KeysFile:
    """The keys of a file together with fixed ones; `keys` always has the current ones.

    `before` is an earlier, valid content of the file, which counts if the file is invalid now.

    Raises:
        ArgumentError: the file cannot be read, or a line is invalid.
    """

    def __init__(
        self, path: str | os.PathLike[str], fixed: Keys | None = None, before: str | None = None
    ) -> None:
        self._path = Path(path)
        self._fixed = fixed
        if before is None:
            data, version = read_private_file(_ARGUMENT, self._path)
            self.keys = self._parsed(data)
            self._settling = Settling(version)
        else:
            self.keys = self._parsed(before.encode())
            self._settling = Settling(version_of(self._path))
            self.reload()

    def check(self) -> None:
        """Read the file if it has changed and nobody is writing it."""
        if self._settling.is_due(version_of(self._path)):
            self.reload()

    def reload(self) -> None:
        """Read the file now; if it is invalid, the keys stay as they are."""
        self._settling.mark_read(version_of(self._path))
        try:
            data, version = read_private_file(_ARGUMENT, self._path, waits=False)
            self._settling.mark_read(version)
            self.keys.replace(self._parsed(data))
        except ArgumentError as error:
            logger.error(
                "the keys were not read again, and those from before still apply: %s",
                *(error.rule,),
                extra={"event": "keys_kept", "path": str(self._path), "reason": error.rule},
            )
            return
        logger.info(
            "the keys were read again from %s: %d keys",
            *(self._path, len(self.keys)),
            extra={"event": "keys_read", "path": str(self._path), "keys": len(self.keys)},
        )

    async def watch(self, _: Any) -> NoReturn:
        """Check the file again and again, as a service of a runtime."""
        while True:
            await asyncio.sleep(_INTERVAL)
            await asyncio.to_thread(self.check)  # the file may be on a slow network drive

    def _parsed(self, data: bytes) -> Keys:
        found = parse_keys(self._path, data)
        try:
            return Keys(found, _ARGUMENT, also=self._fixed)
        except ArgumentError as error:
            raise file_error(_ARGUMENT, self._path, f"a key {error.rule}") from None


class ValidFile:
    """The last valid content of a file of keys, for the parent of processes that use it.

    Raises:
        ArgumentError: the file is not valid at first.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._settling = Settling(None)
        self._content = self._read(waits=True)

    def read(self) -> str:
        """Return the content; the processes that use the file log what is wrong with it."""
        if self._settling.is_due(version_of(self._path)):
            with suppress(ArgumentError):
                self._content = self._read(waits=False)
        return self._content

    def _read(self, *, waits: bool) -> str:
        data, version = read_private_file(_ARGUMENT, self._path, warns=False, waits=waits)
        self._settling.mark_read(version)
        parse_keys(self._path, data)
        return data.decode()


def parse_keys(path: Path, data: bytes) -> Mapping[str, str]:
    """Return the owner of each key. Messages give line numbers, never the content of a line.

    Raises:
        ArgumentError: a line is invalid, or there is no key.
    """
    keys: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in private_lines(data):
        key, owner = _parse_line(path, number, line)
        if key in keys:
            raise _error(path, f"line {number} has the same key as line {lines[key]}")
        keys[key], lines[key] = owner, number
    if not keys:
        raise _error(path, "the file contains no key")
    return keys


def _parse_line(path: Path, number: int, line: bytes) -> tuple[str, str]:
    try:
        key, *rest = re.split(r"[ \t]+", line.decode(), maxsplit=1)
    except UnicodeDecodeError:
        raise _error(path, f"line {number} is not UTF-8") from None
    owner = "".join(rest)
    if not (key.isascii() and key.isprintable()):
        raise _error(path, f"line {number}: a key must consist of printable ASCII characters")
    if not owner.isprintable():
        raise _error(path, f"line {number}: a name must consist of printable characters")
    return key, owner


def _error(path: Path, reason: str) -> ArgumentError:
    return file_error(_ARGUMENT, path, reason)
