"""The file with the saved conversations, by the rules of the platform. Pure.

* Linux and other Unix systems: `$XDG_DATA_HOME`, otherwise `~/.local/share`.
* macOS: `$XDG_DATA_HOME` if it is set, otherwise `~/Library/Application Support`.
* Windows: `%LOCALAPPDATA%`, otherwise `~/AppData/Local`.

A relative path in a variable is ignored, as the XDG specification demands.
"""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["data_file"]

_DEFAULTS = {"darwin": "Library/Application Support", "win32": "AppData/Local"}


def data_file(env: Mapping[str, str], platform: str, home: Path) -> Path:
    """Return the path of the database; `platform` is `sys.platform`."""
    variable = "LOCALAPPDATA" if platform == "win32" else "XDG_DATA_HOME"
    folder = Path(env.get(variable, ""))
    if not folder.is_absolute():
        folder = home / _DEFAULTS.get(platform, ".local/share")
    return folder / "coreason" / "conversations.db"
