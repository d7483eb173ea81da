"""The import of the agent for `coreason serve`."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coreason_client.cli._load import load_agent, load_object
from coreason_client.cli.exits import ExitCode, Failure


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory with modules; what they leave in the interpreter is removed."""
    (tmp_path / "good_agent.py").write_text(
        "class Shelf:\n    agent = 'nested'\nagent = 'plain'\nnothing = None\n"
    )
    (tmp_path / "bad_agent.py").write_text("raise ValueError('bad day')")
    (tmp_path / "needs_more.py").write_text("import no_such_library")
    (tmp_path / "package_of_agents").mkdir()
    (tmp_path / "package_of_agents" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("good_agent:agent", "plain"),
        ("good_agent:Shelf.agent", "nested"),
        ("good_agent:nothing", None),
    ],
)
def test_an_attribute_of_a_module_is_found(name: str, found: object) -> None:
    assert load_agent(name) == found


def test_the_current_directory_is_searched_first(folder: Path) -> None:
    load_agent("good_agent:agent")
    assert sys.path[0] == str(folder)


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("good_agent", ExitCode.USAGE, "must be given as MODULE:ATTRIBUTE, .*, got 'good_agent'"),
        ("good_agent:", ExitCode.USAGE, "must be given as MODULE:ATTRIBUTE"),
        (":agent", ExitCode.USAGE, "must be given as MODULE:ATTRIBUTE"),
        ("good_agent.py:agent", ExitCode.USAGE, "by its module, not its file: good_agent:agent, "),
        ("./a/good.py:agent", ExitCode.USAGE, "by its module, not its file: a.good:agent, got "),
        ("/far/good.py:agent", ExitCode.USAGE, "its file: good:agent in /far, got '/far/good.py"),
        ("good_agent:nobody", ExitCode.USAGE, "module good_agent has no attribute 'nobody'"),
        ("good_agent:Shelf.x", ExitCode.USAGE, "module good_agent has no attribute 'Shelf.x'"),
        ("no_such_module:agent", ExitCode.USAGE, "module no_such_module not found in "),
        ("no_such_module.a:agent", ExitCode.USAGE, "module no_such_module.a not found in "),
        ("package_of_agents.x:agent", ExitCode.USAGE, "module package_of_agents.x not found in "),
        ("needs_more:agent", ExitCode.FAILED, "ModuleNotFoundError: .*no_such_library"),
        (
            "bad_agent:agent",
            ExitCode.FAILED,
            "module bad_agent cannot be imported: ValueError: ",
        ),
    ],
)
def test_what_cannot_be_imported_is_an_error_that_says_why(
    name: str, code: ExitCode, message: str
) -> None:
    with pytest.raises(Failure, match=message) as caught:
        load_agent(name)
    assert caught.value.code is code


def test_the_traceback_of_a_failed_import_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "coreason_client.cli"), pytest.raises(Failure):
        load_agent("bad_agent:agent")
    assert "Traceback" in caplog.text
    assert "ValueError: bad day" in caplog.text


def test_an_error_names_the_option_and_an_example() -> None:
    with pytest.raises(Failure, match=r"^--tool must be given as .*, such as m:f, got 'f'$"):
        load_object("f", "--tool", "m:f")


def test_the_current_directory_is_added_once(folder: Path) -> None:
    for _ in range(2):
        load_object("good_agent:agent", "--tool", "m:f")
    assert sys.path.count(str(folder)) == 1
