"""The files and URLs of `--attach`: what is read, and what cannot be attached."""

from pathlib import Path

import pytest

from coreason_client.cli import _attached
from coreason_client.cli._attached import Attached, read_attached, type_of_name
from coreason_client.cli.exits import ExitCode, Failure


def test_a_file_is_read_and_a_url_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    path, url = str(tmp_path / "a.png"), "https://x.example/b%20c.pdf?d=e"
    assert read_attached([path, url]) == [
        Attached(path, "a.png", b"x"),
        Attached(url, "b c.pdf", None),
    ]


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("a.PNG", "image/png"), ("a.tar.gz", "application/gzip"), ("a", None), ("", None)],
)
def test_the_name_of_a_file_shows_its_type(name: str, media_type: str | None) -> None:
    assert type_of_name(name) == media_type


def test_files_have_a_limit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_attached, "MAX_ATTACHED_BYTES", 1024 * 1024)
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"x" * 512 * 1024)
    paths = [str(tmp_path / name) for name in ("one", "two")]
    assert [len(one.content or b"") for one in read_attached(paths)] == [512 * 1024] * 2
    (tmp_path / "three").write_bytes(b"x")
    with pytest.raises(Failure) as caught:
        read_attached([*paths, str(tmp_path / "three")])
    assert str(caught.value) == (
        f"--attach {tmp_path / 'three'}: the files are larger than 1 MiB together;"
        " attach a URL instead"
    )
    assert caught.value.code is ExitCode.USAGE
    before = read_attached([*paths, "https://x.example/four"])
    assert read_attached(["https://x.example/five"], before)
    with pytest.raises(Failure, match="three: the files are larger than 1 MiB together"):
        read_attached([str(tmp_path / "three")], before)
    assert read_attached([str(tmp_path / "three")], before[1:])


def test_a_file_without_an_end_is_not_read_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_attached, "MAX_ATTACHED_BYTES", 1024 * 1024)
    with pytest.raises(Failure, match="larger than 1 MiB"):
        read_attached(["/dev/zero"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing", "no such file or directory"), (".", "is a directory"), ("a\0b", "null")],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(Failure, match=f"^--attach .*: .*{reason}") as caught:
        read_attached([f"{tmp_path}/{name}"])
    assert caught.value.code is ExitCode.USAGE
