"""The tables of the page about logging list what the source logs."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "coreason_client"
PAGE = (ROOT / "docs" / "howto" / "logging.md").read_text(encoding="utf-8")
LEVELS = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}
METHODS = {level.lower(): level for level in LEVELS} | {"exception": "ERROR"}


def logger_of(tree: ast.Module) -> str | None:
    """Return the name of the logger that a module has."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("logging.getLogger"):
            assert isinstance(node.value, ast.Call)
            return str(ast.literal_eval(node.value.args[0]))
    return None


def levels_in(tree: ast.Module) -> set[str]:
    """Return the levels at which a module logs."""
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        if node.value.id == "logger" and node.attr in METHODS:
            found.add(METHODS[node.attr])
        elif node.value.id == "logging" and node.attr in LEVELS:
            found.add(node.attr)
    return found


def test_the_table_of_loggers_is_complete() -> None:
    logged: dict[str, set[str]] = defaultdict(set)
    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "getLogger" not in text:  # parsing all files takes seconds
            continue
        tree = ast.parse(text)
        if (name := logger_of(tree)) is not None:
            logged[name] |= levels_in(tree)
    rows = re.findall(r"^\| `(coreason_client[\w.]*)` \| ([A-Z, ]+) \|", PAGE, re.MULTILINE)
    assert {name: set(levels.split(", ")) for name, levels in rows} == logged


def test_the_table_of_events_is_complete() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    logged = set(re.findall(r'"event": "(\w+)"', text))
    [table] = re.findall(r"^\| `event` \|.*\n\|---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [line.split("|")[1] for line in table.splitlines()]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == logged
    assert len(logged) > 15
