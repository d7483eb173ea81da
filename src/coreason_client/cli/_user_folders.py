"""The folders for files of the user, by the rules of the platform. Pure.

| | Linux and other Unix systems | macOS | Windows |
|---|---|---|---|
| config | `$XDG_CONFIG_HOME`, `~/.config` | `~/Library/Application Support` | `%APPDATA%` |
| data | `$XDG_DATA_HOME`, `~/.local/share` | the same | `%LOCALAPPDATA%` |
| state | `$XDG_STATE_HOME`, `~/.local/state` | the same | `%LOCALAPPDATA%` |

macOS uses the XDG variables too if they are set. A relative path in a variable is ignored, as the
XDG specification demands.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

Kind = Literal["config", "data", "state"]

_UNIX = {"config": ".config", "data": ".local/share", "state": ".local/state"}
_WINDOWS = {"config": "Roaming", "data": "Local", "state": "Local"}
_WINDOWS_VARIABLES = {"config": "APPDATA", "data": "LOCALAPPDATA", "state": "LOCALAPPDATA"}


def user_folder(kind: Kind, env: Mapping[str, str], platform: str, home: Path) -> Path:
    """Return the folder of this program; `platform` is `sys.platform`."""
    windows = platform == "win32"
    variable = _WINDOWS_VARIABLES[kind] if windows else f"XDG_{kind.upper()}_HOME"
    folder = Path(env.get(variable, ""))
    if not folder.is_absolute():
        folder = home / _default(kind, platform)
    return folder / "coreason"


def user_file(kind: Kind, name: str) -> Path:
    """Return the path of a file in the folder of this user and platform."""
    return user_folder(kind, os.environ, sys.platform, Path.home()) / name


def _default(kind: Kind, platform: str) -> str:
    if platform == "win32":
        return f"AppData/{_WINDOWS[kind]}"
    return "Library/Application Support" if platform == "darwin" else _UNIX[kind]
