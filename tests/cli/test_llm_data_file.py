"""Where conversations are saved, on each platform."""

from pathlib import Path

import pytest

from coreason_client.cli.llm._data_file import data_file

HOME = Path("/home/ann")


@pytest.mark.parametrize(
    ("platform", "env", "folder"),
    [
        ("linux", {}, "/home/ann/.local/share"),
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data"),
        ("linux", {"XDG_DATA_HOME": ""}, "/home/ann/.local/share"),
        ("linux", {"XDG_DATA_HOME": "data"}, "/home/ann/.local/share"),
        ("linux", {"LOCALAPPDATA": "/local"}, "/home/ann/.local/share"),
        ("freebsd14", {}, "/home/ann/.local/share"),
        ("darwin", {}, "/home/ann/Library/Application Support"),
        ("darwin", {"XDG_DATA_HOME": "/data"}, "/data"),
        ("win32", {}, "/home/ann/AppData/Local"),
        ("win32", {"LOCALAPPDATA": "/local", "XDG_DATA_HOME": "/data"}, "/local"),
    ],
)
def test_the_file_is_in_the_data_directory_of_the_user(
    platform: str, env: dict[str, str], folder: str
) -> None:
    assert data_file(env, platform, HOME) == Path(folder, "coreason", "conversations.db")
