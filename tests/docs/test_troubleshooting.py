"""The pages of messages quote real messages, and no error, code or exit code is missing there."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import coreason_client
from coreason_client import a2a, llm, server, sse
from coreason_client.agents import llm as agents
from coreason_client.cli.exits import ExitCode
from coreason_client.server.engine import _packets as _end_errors
from coreason_client.server.http import _problems

from .failures import messages

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "coreason_client"
# Each page of messages, with the level of the headings that are messages.
MESSAGES = {
    "troubleshooting.md": "###",
    "troubleshooting-a2a.md": "##",
    "troubleshooting-llm.md": "##",
    "troubleshooting-server.md": "###",
}
TEXTS = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in [*MESSAGES, "cli.md"]}
PAGE = "\n".join(TEXTS.values())
HEADINGS = [
    heading
    for name, level in MESSAGES.items()
    for heading in re.findall(rf"^{level} (.*)$", TEXTS[name], re.MULTILINE)
]
PLACEHOLDER = re.compile(r"%[-\d.]*[sdrgf]")
# Of OpenSSL, which a test cannot make fail without a certificate.
FOREIGN = {"certificate verify failed"}


def rows(first_columns: str) -> list[list[str]]:
    """Return the rows of the table whose head begins with these columns."""
    [table] = re.findall(
        rf"^\| {re.escape(first_columns)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE
    )
    return [[cell.strip() for cell in line.split(" | ")] for line in table.splitlines()]


def codes_of(first_columns: str) -> set[str]:
    return {row[0].strip("| `") for row in rows(first_columns)}


@cache
def source_files() -> dict[Path, str]:
    return {file: file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}


@cache
def written_messages(file: Path) -> list[str]:
    """Return the texts in a file of the source, with `…` for what is put into them."""
    return [*_texts(ast.parse(source_files()[file]))]


def _texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = (
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            )
            yield "".join(values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield PLACEHOLDER.sub("…", node.value)


def is_in(quoted: str, texts: list[str]) -> bool:
    """Return True if a text has the message; `…` in the message stands for anything."""
    pattern = re.compile(".*".join(map(re.escape, quoted.split("…"))), re.DOTALL)
    return any(pattern.search(text) for text in texts)


def is_real(quoted: str, produced: list[str]) -> bool:
    """Return True if a message of the page was produced, or is in the source."""
    if is_in(quoted, produced):
        return True
    # Parsing all files would take seconds, so only those with some of its words are parsed.
    known = re.findall(r"\w+ \w+", quoted)
    files = [file for file, text in source_files().items() if any(two in text for two in known)]
    files.sort(key=lambda file: -sum(two in source_files()[file] for two in known))
    return any(is_in(quoted, written_messages(file)) for file in files)


@pytest.fixture(scope="module")
def produced() -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LLM_API_KEY", "OPENAI_API_KEY", "LLM_API_BASE_URL"):
            patch.delenv(name, raising=False)
        return messages()


def test_a_message_that_does_not_exist_is_noticed(produced: list[str]) -> None:
    assert not is_real("the moon … is made of cheese", produced)
    assert is_real("max_retries must be 0 or more, got …", produced)


def test_every_heading_is_a_real_message(produced: list[str]) -> None:
    assert len(HEADINGS) > 60
    invented = [heading for heading in HEADINGS if not is_real(heading, produced)]
    assert set(invented) == FOREIGN


def test_every_message_in_a_table_is_real(produced: list[str]) -> None:
    quoted = [row[1] for row in rows("code | message")]
    quoted += [row[2] for row in rows("code | status | message")]
    real = [text for text in quoted if text != "…"]
    assert len(real) > 50
    assert not [text for text in real if not is_real(text, produced)]


def test_most_messages_are_produced(produced: list[str]) -> None:
    found = [heading for heading in HEADINGS if is_in(heading, produced)]
    assert len(found) > len(HEADINGS) / 2


@pytest.mark.parametrize(
    "package", [coreason_client, a2a, llm, server, sse], ids=lambda p: p.__name__
)
def test_every_public_error_has_an_entry(package: ModuleType) -> None:
    exported = {name: getattr(package, name) for name in package.__all__}
    errors = {
        name
        for name, value in exported.items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert errors
    assert {name for name in errors if not re.search(rf"`{name}`", PAGE)} == set()


def problem_codes() -> set[str]:
    """Return the codes of the problem documents in the source."""
    found = {code for _, code in _problems._LOG_ERRORS.values()}
    for text in source_files().values():
        if "Problem(" not in text and "_refusal(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                index = {"Problem": 1, "_refusal": 0}.get(node.func.id)
                if index is not None and len(node.args) > index:
                    found |= _codes(node.args[index])
    return found


def _codes(argument: ast.expr) -> set[str]:
    if isinstance(argument, ast.JoinedStr):
        return {"too-many-messages", "too-many-parts"}
    code = argument.value if isinstance(argument, ast.Constant) else None
    return {code} if isinstance(code, str) and not code.isdigit() else set()


def test_every_code_of_a_problem_has_an_entry() -> None:
    codes = problem_codes()
    assert len(codes) > 25
    # Made from titles, for the paths and methods that the router refuses.
    assert codes | {"method-not-allowed"} == codes_of("code | status | message")


def test_every_code_that_ends_a_stream_has_an_entry() -> None:
    text = Path(_end_errors.__file__).read_text(encoding="utf-8")
    codes = set(re.findall(r'fatal\(\s*"(\w+)"', text))
    codes |= {code for code, _ in agents._ERRORS.values()} | {agents._UNSUPPORTED, "rejected"}
    assert codes == codes_of("code | message")


def test_every_exit_code_has_an_entry() -> None:
    assert codes_of("code | meaning | what to do") == {str(int(code)) for code in ExitCode}
