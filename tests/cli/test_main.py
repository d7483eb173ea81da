"""The command itself: help, version, usage, and what is missing."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

from coreason_client import __version__
from coreason_client.cli import _load as _required_extras
from coreason_client.cli._app import app
from coreason_client.cli.exits import ExitCode

from .command import coreason, coreason_here, environment


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["chat", "-h"],
        ["llm", "-h"],
        ["llm", "models", "-h"],
        ["llm", "logs", "-h"],
        ["serve", "--help"],
    ],
)
def test_help_has_examples_and_names_the_exit_codes_once(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    listed = [f"{code.value:>3}  " in result.stdout for code in ExitCode]
    assert listed == [arguments == ["--help"]] * len(ExitCode)
    hint = "coreason --help lists the exit codes." in result.stdout
    assert hint is (arguments != ["--help"])


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["chat"],
        ["llm"],
        ["llm", "models"],
        ["llm", "logs"],
        ["serve"],
        ["a2a"],
        ["a2a", "task"],
        ["a2a", "send"],
    ],
    ids=" ".join,
)
def test_help_fits_the_terminal_and_no_summary_is_truncated(
    arguments: list[str], columns: int
) -> None:
    result = CliRunner().invoke(app, [*arguments, "--help"], terminal_width=columns)
    usage, *lines = result.stdout.splitlines()
    assert usage.startswith("Usage:")
    assert [line for line in lines if len(line) > columns or line.endswith("...")] == []


def test_the_version() -> None:
    done = coreason("--version")
    assert (done.returncode, done.stdout) == (0, f"coreason {__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chat", "--no-such-option"], "No such option"),
        (["chat", "--timeout", "soon", "hello"], "--timeout"),
        (["chat", "--timeout", "-1", "--url", "http://x.example", "hello"], "timeout"),
        (["chat", "--max-retries", "-1", "--url", "http://x.example", "hello"], "--max-retries"),
        (["chat", "--url", "example", "hello"], "--url must start with"),
        (["chat", "--url", "http://x.example", "--api-key", "a b", "hello"], "--api-key must be"),
        (["chat", "--seed", "1", "hello"], "--seed needs --chaos"),
        (["chat", "--conversation", "", "hello"], "--conversation must not be empty"),
        (["chat", "--chaos", "--url", "https://x.example", "hello"], "http://"),
        (
            ["chat", "--url", "http://x.example", "--llm", "m", "hello"],
            "--url and --llm cannot be used together",
        ),
        (["chat", "--system", "Be brief.", "hello"], "--system needs --llm"),
        (["chat"], "nothing to ask: give TEXT as an argument or on stdin"),
        (["chat", "-"], "nothing to ask: give TEXT"),
        (["chat", " "], "nothing to ask: TEXT is empty"),
        (["chat", "two", "texts"], "expected one TEXT, got 2 arguments"),
        (["serve", "my:agent", "--llm", "m"], "my:agent and --llm m cannot be used together"),
        (["serve", "--system", "Be brief."], "--system needs --llm"),
        (["serve", "--port", "70000"], "--port"),
    ],
)
def test_wrong_usage_says_so_and_ends_with_2(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"COREASON_API_KEY": "k1 k2"}, "COREASON_API_KEY must be"),
        ({"COREASON_URL": "example"}, "COREASON_URL must start with"),
    ],
)
def test_a_wrong_variable_is_named(env: dict[str, str], says: str) -> None:
    result = CliRunner().invoke(
        app, ["chat", "hello"], env={"COREASON_URL": "http://x.example", **env}
    )
    assert result.exit_code == 2
    assert says in result.stderr
    assert "--" not in result.stderr


def test_the_address_of_the_endpoint_is_passed_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client, to which every command gives it, decides about it."""
    given: list[str] = []

    class Recorded(Exception):
        pass

    def record(url: str, *_: object) -> None:
        given.append(url)
        raise Recorded

    monkeypatch.setattr("coreason_client.cli.chat._service.CAPClient", record)
    result = CliRunner().invoke(app, ["chat", "--url", "http://x.example/assist", "hello"])
    assert isinstance(result.exception, Recorded)
    assert given == ["http://x.example/assist"]


@pytest.mark.parametrize(
    ("missing", "arguments", "says"),
    [
        ("typer", ["chat", "hello"], "the coreason command needs the extra 'cli'"),
        ("rich", ["chat", "hello"], "the coreason command needs the extra 'cli'"),
        ("uvicorn", ["chat", "hello"], "the built-in agent needs the extra 'server'"),
        ("aiohttp", ["llm", "hello"], "the AI client needs the extra 'llm'"),
    ],
)
def test_a_missing_extra_is_one_sentence(missing: str, arguments: list[str], says: str) -> None:
    hide = (
        "import importlib.util, sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *a: None if name == {missing!r} else find(name)\n"
        f"sys.argv = ['coreason', *{arguments!r}]\n"
        "from coreason_client.__main__ import main\n"
        "main()\n"
    )
    done = run_program(hide)
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (
            ["--help"],
            {
                *("pydantic", "httpx2", "starlette", "uvicorn", "aiohttp", "sqlite3"),
                *("prompt_toolkit", "tomllib"),
            },
        ),
        (["profiles", "--path"], {"httpx2", "asyncio", "prompt_toolkit", "tomllib"}),
        (["llm", "--help"], {"httpx2", "aiohttp", "asyncio", "sqlite3", "coreason_client.llm"}),
        (["llm", "logs", "--help"], {"httpx2", "asyncio", "sqlite3", "coreason_client.llm"}),
    ],
)
def test_help_loads_no_client_and_no_server(arguments: list[str], heavy: set[str]) -> None:
    program = (
        "import sys\n"
        f"sys.argv = ['coreason', *{arguments!r}]\n"
        "from coreason_client.__main__ import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        f"    heavy = {heavy!r} & set(sys.modules)\n"
        "    assert not heavy, heavy\n"
    )
    done = run_program(program)
    assert (done.returncode, done.stderr) == (0, "")


def run_program(source: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new process, where nothing is imported yet."""
    return subprocess.run(
        [sys.executable, "-c", source],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("missing", "arguments", "says"),
    [
        ("uvicorn", ["serve", "--port", "0"], "coreason serve needs the extra 'server'"),
        ("uvicorn", ["chat", "--llm", "m", "hello"], "--llm needs the extra 'server'"),
        ("genai_prices", ["chat", "--llm", "m", "hello"], "the AI client needs the extra 'llm'"),
        ("pydantic_settings", ["serve", "--llm", "m"], "the AI client needs the extra 'llm'"),
    ],
)
def test_every_command_checks_the_extras_that_it_needs(
    missing: str, arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _required_extras, "find_spec", lambda name: None if name == missing else find_spec(name)
    )
    done = coreason_here(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {says}")
    assert done.stderr.count("\n") == 1
