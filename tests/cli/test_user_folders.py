"""The folders of the user's files, on each platform."""

from pathlib import Path

import pytest

from coreason_client.cli._user_folders import Kind, user_file, user_folder
from tests.each import each

HOME = Path("/home/ann")


@each(
    ("platform", "kind", "env", "folder"),
    [
        ("linux", "data", {}, "/home/ann/.local/share"),
        ("linux", "state", {}, "/home/ann/.local/state"),
        ("linux", "config", {}, "/home/ann/.config"),
        ("linux", "data", {"XDG_DATA_HOME": "/data"}, "/data"),
        ("linux", "state", {"XDG_STATE_HOME": "/state", "XDG_DATA_HOME": "/data"}, "/state"),
        ("linux", "config", {"XDG_CONFIG_HOME": "/config"}, "/config"),
        ("linux", "data", {"XDG_DATA_HOME": ""}, "/home/ann/.local/share"),
        ("linux", "data", {"XDG_DATA_HOME": "data"}, "/home/ann/.local/share"),
        ("linux", "data", {"LOCALAPPDATA": "/local"}, "/home/ann/.local/share"),
        ("freebsd14", "data", {}, "/home/ann/.local/share"),
        ("darwin", "data", {}, "/home/ann/Library/Application Support"),
        ("darwin", "config", {}, "/home/ann/Library/Application Support"),
        ("darwin", "data", {"XDG_DATA_HOME": "/data"}, "/data"),
        ("win32", "data", {}, "/home/ann/AppData/Local"),
        ("win32", "config", {}, "/home/ann/AppData/Roaming"),
        ("win32", "state", {"LOCALAPPDATA": "/local", "XDG_STATE_HOME": "/state"}, "/local"),
        ("win32", "config", {"APPDATA": "/roaming", "LOCALAPPDATA": "/local"}, "/roaming"),
    ],
)
def test_each_kind_of_file_has_its_folder(
    platform: str, kind: Kind, env: dict[str, str], folder: str
) -> None:
    assert user_folder(kind, env, platform, HOME) == Path(folder, "coreason")


def test_a_file_is_in_the_folder_of_this_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert user_file("state", "history") == tmp_path / "coreason" / "history"
