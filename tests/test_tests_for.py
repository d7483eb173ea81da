"""The tests of one source file, as `make test-for` finds them."""

from pathlib import Path

import pytest

from scripts.tests_for import found_for as found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "src/pack/cap/_resume.py": "",
        "src/pack/cap/_http/_head.py": "",
        "src/pack/cap/__init__.py": "",
        "src/pack/alone/_one.py": "",
        "tests/cap/test_resume.py": "",
        "tests/cap/test_client.py": "from pack.cap._resume import x\n",
        "tests/cap/test_other.py": "from pack.cap import other\nfrom . import _resume\n",
        "tests/cap/test_package.py": "import pack.cap\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def names(project: Path, file: str) -> list[str]:
    return [test.as_posix() for test in found(Path(file), project)]


def test_they_import_the_module_or_have_its_name(project: Path) -> None:
    assert names(project, "src/pack/cap/_resume.py") == [
        "tests/cap/test_client.py",
        "tests/cap/test_resume.py",
    ]


def test_those_of_a_package_import_it(project: Path) -> None:
    wanted = ["tests/cap/test_other.py", "tests/cap/test_package.py"]
    assert names(project, "src/pack/cap/__init__.py") == wanted


def test_otherwise_they_are_those_of_the_package(project: Path) -> None:
    assert names(project, "src/pack/cap/_http/_head.py") == ["tests/cap"]
    assert names(project, "src/pack/alone/_one.py") == ["tests"]


@pytest.mark.parametrize("file", ["src/pack/gone.py", "tests/cap/test_resume.py", "src/pack"])
def test_something_else_is_refused(project: Path, file: str) -> None:
    with pytest.raises(ValueError, match="is not a Python file below src"):
        found(Path(file), project)
