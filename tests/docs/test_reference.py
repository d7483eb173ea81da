"""The API reference has one entry for every public name, and uses the name in an example."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import coreason_client
import coreason_manifest
from tests.each import each

from .blocks import parse

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
# Their names are for users. The package `cap` and most modules are not: what is public there is
# exported by a package above them.
PUBLIC = [
    "coreason_client",
    *(
        f"coreason_client.{name}"
        for name in (
            *("a2a", "adapters.langgraph", "adapters.openai_agents", "agents.guide"),
            *("agents.llm", "errors", "inspector"),
            *("llm", "server", "server.log", "sse", "testing"),
        )
    ),
    *(
        f"coreason_manifest.definitions.{name}"
        for name in (
            *("message", "presentation", "reports", "request", "rewind", "service", "session"),
        )
    ),
]


@dataclass(frozen=True)
class Page:
    """The entries of a page, and the names that its examples use."""

    entries: tuple[str, ...]
    used: frozenset[str]


def used_names(code: str) -> set[str]:
    """Return the names that a program uses; an import alone does not count."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def read_page(text: str, name: str) -> Page:
    blocks = [block for block in parse(text, name) if block.language == "python"]
    used = frozenset().union(*(used_names(block.code) for block in blocks if not block.not_run))
    return Page(tuple(ENTRY.findall(text)), used)


@cache
def pages() -> dict[str, Page]:
    found = sorted(REFERENCE.glob("*.md"))
    return {path.name: read_page(path.read_text(encoding="utf-8"), path.name) for path in found}


@cache
def public_modules() -> dict[str, ModuleType]:
    return {name: importlib.import_module(name) for name in PUBLIC}


@cache
def public_names() -> dict[str, str]:
    """Return the paths of all public names, each with its shortest path."""
    shortest: dict[tuple[str, int], str] = {}
    paths: dict[str, str] = {}
    for module in sorted(PUBLIC, key=lambda name: (name.count("."), name)):
        for name in public_modules()[module].__all__:
            # Two modules may have different objects of one name; one object may have two names.
            key = (name, id(getattr(public_modules()[module], name)))
            paths[f"{module}.{name}"] = shortest.setdefault(key, f"{module}.{name}")
    return paths


def test_every_public_name_has_one_entry_under_its_shortest_path() -> None:
    counted = Counter(entry for page in pages().values() for entry in page.entries)
    expected = set(public_names().values())
    assert sorted(expected - set(counted)) == [], "these names have no entry"
    assert [entry for entry, count in counted.items() if count > 1] == []
    assert len(expected) > 280


def test_every_entry_is_the_shortest_path_of_a_public_name() -> None:
    known = set(public_names().values())
    entries = [entry for page in pages().values() for entry in page.entries]
    wrong = {entry: public_names().get(entry) for entry in entries if entry not in known}
    assert wrong == {}, "no public name, or one with a shorter path"


def test_every_name_is_used_by_an_example_of_its_page() -> None:
    missing = [
        f"{name}: {entry}"
        for name, page in pages().items()
        for entry in page.entries
        if entry.rpartition(".")[2] not in page.used
    ]
    assert missing == []


def test_an_import_is_no_use_of_a_name() -> None:
    code = "from coreason_client import A2AClient, CAPClient\nCAPClient.ask\n"
    assert used_names(code) == {"CAPClient", "ask"}


@each("package", [coreason_client, coreason_manifest])
def test_no_other_module_exports_a_name_of_its_own_to_users(package: ModuleType) -> None:
    """A new public package must be added to the reference."""
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    public = [name for _, name, is_package in found if is_package and "._" not in name]
    known = {parent for name in PUBLIC for parent in parents(name)} | NOT_FOR_USERS
    assert [name for name in public if not is_below(name, known)] == []


NOT_FOR_USERS = {
    *("coreason_client.cap", "coreason_client.cli", "coreason_client.agents"),
    # Each adapter has its own page: an example needs the framework.
    "coreason_client.adapters",
    # All their names are in the package above them.
    *("coreason_client.testing.contracts", "coreason_client.testing.faults"),
    *(f"coreason_client.llm.{name}" for name in ("observe", "providers", "router", "tools")),
    *(
        f"coreason_client.server.{name}"
        for name in (
            *("a2a", "ag_ui", "ai_sdk", "answer", "cap", "durable", "engine", "http"),
            *("log.postgres", "log.remote", "log.valkey", "observe", "openai", "page", "process"),
        )
    ),
}


def parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def is_below(name: str, known: set[str]) -> bool:
    return name in known or any(parent in NOT_FOR_USERS for parent in parents(name))


def undescribed(function: object, documented: str) -> list[str]:
    """Return the parameters that a docstring does not name."""
    names = inspect.signature(function).parameters  # type: ignore[arg-type]
    return [
        name
        for name in names
        if name not in ("self", "cls") and not re.search(rf"\b{name}\b", documented)
    ]


CLIENTS = ["CAPClient", "LLMClient", "A2AClient", "AgentCardResolver"]
# Their docstrings name the method whose arguments they have.
SAME_ARGUMENTS = {"iter_tasks", "send_message_with_config"}
DESCRIBED = [
    "coreason_client",
    *(f"coreason_client.{name}" for name in ("a2a", "llm", "server", "sse")),
]


@each("name", [*CLIENTS, *(f"Async{name}" for name in CLIENTS)])
def test_the_docstrings_of_a_client_describe_its_arguments(name: str) -> None:
    client = getattr(coreason_client, name)
    assert undescribed(client.__init__, client.__doc__ or "") == []
    for method, function in inspect.getmembers(client, inspect.isroutine):
        if not method.startswith("_") and method not in SAME_ARGUMENTS:
            assert undescribed(function, function.__doc__ or "") == [], method


LOGS = ["MemoryStreamLog", "PostgresStreamLog", "SQLiteStreamLog", "ValkeyStreamLog"]


@each("name", ["A2A", "AgentApp", *LOGS])
def test_the_docstring_of_a_class_of_the_server_kit_describes_its_arguments(name: str) -> None:
    made = getattr(coreason_client.server, name)
    missing = undescribed(made.__init__, made.__doc__ or "")
    assert [argument for argument in missing if not argument.startswith("_")] == []


@each("module", DESCRIBED)
def test_the_docstring_of_a_function_describes_its_arguments(module: str) -> None:
    face = public_modules()[module]
    found = {name: getattr(face, name) for name in face.__all__}
    functions = {name: value for name, value in found.items() if inspect.isfunction(value)}
    missing = {name: undescribed(value, value.__doc__ or "") for name, value in functions.items()}
    assert {name: names for name, names in missing.items() if names} == {}


def test_an_undescribed_argument_is_found() -> None:
    def call(url: str, key: str) -> None: ...

    assert undescribed(call, "Args:\n    url: the address") == ["key"]
    with pytest.raises(AssertionError):
        assert undescribed(call, "") == []
