"""Files of an agent stay in their folder, replace nothing, and are complete."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.a2a import Part
from coreason_client.cli.a2a._files import SavedFiles, safe_name
from coreason_client.cli.exits import ExitCode, Failure


def part(content: bytes, name: str | None = None, media_type: str | None = None) -> Part:
    return Part.from_bytes(content, filename=name, media_type=media_type)


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("a.txt", "a.txt"),
        ("../../etc/passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\a.txt", "a.txt"),
        ("C:\\a.txt", "a.txt"),
        ("C:a.txt", "C_a.txt"),
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("..", "file.png"),
        ("", "file.png"),
        (None, "file.png"),
        ("a/", "file.png"),
        ("a\x1b[31m\n\u202eb.txt", "a_[31m__b.txt"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("façade 日本.png", "façade 日本.png"),
        ("a.txt. ", "a.txt"),
    ],
)
def test_a_name_is_one_safe_component(name: str | None, saved: str) -> None:
    assert safe_name(name, "image/png") == saved


@given(st.text(max_size=400))
def test_any_name_stays_in_the_folder(name: str) -> None:
    found = safe_name(name, None)
    assert Path(found).name == found
    assert not found.startswith((".", "-"))
    assert found.isprintable()
    assert 0 < len(found.encode()) <= 221
    assert Path("/folder", found).resolve().parent == Path("/folder")


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"mine")
    files = SavedFiles(tmp_path)
    assert files.save(part(b"1", "a.txt"), None) == f"saved as {tmp_path / 'a-2.txt'}"
    assert files.save(part(b"2", "a.txt"), None) == f"saved as {tmp_path / 'a-3.txt'}"
    assert (tmp_path / "a.txt").read_bytes() == b"mine"
    forced = SavedFiles(tmp_path, overwrite=True)
    assert forced.save(part(b"3", "a.txt"), None) == f"saved as {tmp_path / 'a.txt'}"
    # A second file of the same answer replaces neither the first nor another one.
    assert forced.save(part(b"4", "a.txt"), None) == f"saved as {tmp_path / 'a-4.txt'}"
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {"a.txt": b"3", "a-2.txt": b"1", "a-3.txt": b"2", "a-4.txt": b"4"}
    assert forced.paths == [tmp_path / "a.txt", tmp_path / "a-4.txt"]
    forced.raise_problem()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "target").write_bytes(b"mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    files = SavedFiles(tmp_path, overwrite=overwrite)
    for name in ("link", "dangling"):
        files.save(part(b"theirs", name), None)
    assert (tmp_path / "target").read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()
    assert [path.read_bytes() for path in files.paths] == [b"theirs"] * 2


def test_a_folder_of_the_same_name_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    files = SavedFiles(tmp_path, overwrite=True)
    assert files.save(part(b"1", "a"), None) == f"saved as {tmp_path / 'a-2'}"


def test_the_folder_is_created_and_a_name_can_come_from_the_artifact(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "er"
    files = SavedFiles(folder)
    files.save(part(b"1"), "report.pdf")
    files.save(part(b"2", "", "text/html"), None)
    assert {path.name for path in folder.iterdir()} == {"report.pdf", "file.html"}
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Failure, match=r"^--save .*: (file exists|not a directory)$") as caught:
        SavedFiles(tmp_path / "file")
    assert caught.value.code is ExitCode.USAGE


def test_a_file_that_cannot_be_stored_is_reported_once(tmp_path: Path) -> None:
    files = SavedFiles(tmp_path)
    assert files.save(Part(raw="?", filename="x"), None).startswith("not saved: the file x is not")
    with pytest.raises(Failure, match=r"^the file x is not valid base64$") as caught:
        files.raise_problem()
    assert caught.value.code is ExitCode.PROTOCOL
    files.raise_problem()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_has_gone_fails_the_command(tmp_path: Path, overwrite: bool) -> None:
    folder = tmp_path / "gone"
    files = SavedFiles(folder, overwrite=overwrite)
    folder.rmdir()
    assert "no such file" in files.save(part(b"1", "a"), None)
    with pytest.raises(Failure, match="gone/a: no such file or directory") as caught:
        files.raise_problem()
    assert caught.value.code is ExitCode.FAILED
