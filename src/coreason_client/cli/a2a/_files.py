"""The files of messages: those of `--attach`, and those of the agent that `--save` stores.

The agent chooses the names, so only the last component of a name is used, without characters that
have a meaning for a terminal or a file system. A file is created exclusively: it never replaces
another file or follows a symbolic link. With `overwrite`, a file that was there before is replaced
as a whole. Two files of one answer never replace each other.
"""

import mimetypes
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path, PurePath

from coreason_client.a2a import Part

from .._attached import Attached, read_attached, type_of_name
from ..exits import ExitCode, Failure, reason_of

_MAX_NAME_BYTES = 200
_UNSAFE = re.compile(r"[^\w .,()+=@~#%&!\[\]{}^$;-]|[\x00-\x1f\x7f]")
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # devices of Windows


def safe_name(name: str | None, media_type: str | None) -> str:
    """Return a file name for a name that an agent has chosen."""
    last = re.split(r"[/\\]", name or "")[-1]
    cleaned = _UNSAFE.sub("_", last).rstrip(" .").lstrip(" .-")
    if not cleaned:
        return "file" + (mimetypes.guess_extension(media_type or "") or "")
    stem, suffix = PurePath(cleaned).stem, _shortened(PurePath(cleaned).suffix, 20)
    stem = _shortened(stem, _MAX_NAME_BYTES - len(suffix.encode()))
    return f"_{stem}{suffix}" if _RESERVED.fullmatch(cleaned) else stem + suffix


def _shortened(text: str, size: int) -> str:
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")


class SavedFiles:
    """Stores files in a folder, which is created if necessary.

    Raises:
        Failure: the folder cannot be created.
    """

    def __init__(self, folder: Path, *, overwrite: bool = False) -> None:
        self._folder = folder
        self._overwrite = overwrite
        self._written: set[Path] = set()
        self.paths: list[Path] = []
        self._problem: Failure | None = None  # of the first file that could not be stored
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"--save {folder}: {reason_of(error)}", ExitCode.USAGE) from None

    def save(self, part: Part, name: str | None) -> str:
        """Store the content of a part; return where it is, or the reason why it is not stored."""
        chosen = safe_name(part.filename or name, part.media_type)
        try:
            path = self._write(chosen, part.content or b"")
        except ValueError:
            return self._failed(f"the file {chosen} is not valid base64", ExitCode.PROTOCOL)
        except OSError as error:
            return self._failed(f"{self._folder / chosen}: {reason_of(error)}", ExitCode.FAILED)
        self._written.add(path)
        self.paths.append(path)
        return f"saved as {path}"

    def _failed(self, message: str, code: ExitCode) -> str:
        self._problem = self._problem or Failure(message, code)
        return f"not saved: {message}"

    def raise_problem(self) -> None:
        """Raise the Failure of the first file that could not be stored, once."""
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        if self._overwrite and path not in self._written and not path.is_dir():
            _replace(path, content)
            return path
        stem, suffix = path.stem, path.suffix
        for number in count(2):
            with suppress(FileExistsError):
                _create(path, content)
                return path
            path = self._folder / f"{stem}-{number}{suffix}"
        raise AssertionError


def _create(path: Path, content: bytes) -> None:
    """Create a file; raises FileExistsError for anything that has this name, also a link."""
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            path.unlink()
            raise


def _replace(path: Path, content: bytes) -> None:
    """Replace a file as a whole; a symbolic link is replaced and not followed."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".saving-") as folder:
        temporary = Path(folder) / "file"
        _create(temporary, content)
        temporary.replace(path)


# Attachments

_BINARY = "application/octet-stream"


def attached_parts(names: Sequence[str]) -> list[Part]:
    """Return the parts for files, URLs and `-`, which is stdin.

    Raises:
        Failure: a file cannot be read, or they are too large together.
        ArgumentError: a URL is invalid.
    """
    return [attached_part(attached) for attached in read_attached(names)]


def attached_part(attached: Attached) -> Part:
    """Return the part for a file or a URL."""
    filename, content = attached.filename, attached.content
    if content is None:
        return Part(url=attached.name, filename=filename or None, media_type=type_of_name(filename))
    if attached.name == "-":
        media_type = _type_of_content(content)
    else:
        media_type = type_of_name(filename) or _BINARY
    return Part.from_bytes(content, filename=filename, media_type=media_type)


def _type_of_content(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _BINARY
    return _BINARY if "\0" in text else "text/plain"
