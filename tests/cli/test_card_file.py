"""The files with agent cards that `coreason serve` reads."""

import json
from pathlib import Path

import pytest

from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.serve._application import read_card

CARD = {"name": "Painter", "description": "Paints doors.", "skills": [{"id": "p", "name": "Paint"}]}


def test_a_card_is_read(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text(json.dumps(CARD))
    card = read_card("--card", str(path))
    assert (card.name, card.description, card.skills[0].id) == ("Painter", "Paints doors.", "p")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is not JSON: "),
        (b'{"name": ', "the file is not JSON: "),
        (b"\xff", "the file is not JSON: "),
        (b"[]", "an agent card must be a JSON object"),
        (b"{}", "this is not an agent card: name: field required"),
        (b'{"name": 7}', "this is not an agent card: name: input should be a valid string"),
        (b'{"name": "a", "skills": [{"id": 7}]}', "this is not an agent card: skills.0.id: "),
        (b" " * 1024 * 1024 + b"{}", "the file is larger than 1 MiB"),
    ],
)
def test_what_is_not_a_card_is_one_sentence(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "card.json"
    path.write_bytes(content)
    with pytest.raises(Failure) as caught:
        read_card("--extended-card", str(path))
    assert str(caught.value).startswith(f"--extended-card {path}: {reason}")
    assert "\n" not in str(caught.value)
    assert caught.value.code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("name", "reason"), [("no.json", "no such file or directory"), (".", "is a directory")]
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(Failure) as caught:
        read_card("--card", str(tmp_path / name))
    assert str(caught.value) == f"--card {tmp_path / name}: {reason}"
    assert caught.value.code is ExitCode.USAGE
