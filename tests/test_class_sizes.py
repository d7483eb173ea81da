"""No class grows beyond what one reader can keep in mind."""

import ast
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"
MAX_METHODS = 20
MAX_ATTRIBUTES = 16
# Classes whose contract has more methods: the operations of A2A, and those of a stream log.
CONTRACTS = {
    "A2AClient": 23,
    "AgentStream": 40,
    "AsyncA2AClient": 23,
    "MemoryStreamLog": 24,
    "PostgresStreamLog": 22,
    "SQLiteStreamLog": 26,
    "StreamLog": 21,
    "ValkeyStreamLog": 28,
}


@cache
def classes() -> list[tuple[str, ast.ClassDef]]:
    return [
        (f"{path.relative_to(SRC)}:{node.name}", node)
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]


def methods(of: ast.ClassDef) -> list[str]:
    defined = (n for n in of.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return [n.name for n in defined if "overload" not in map(ast.unparse, n.decorator_list)]


def attributes(of: ast.ClassDef) -> set[str]:
    """Return the names that the methods of a class assign to `self`."""
    return {
        node.attr
        for node in ast.walk(of)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


@pytest.mark.parametrize("size", [methods, attributes])
def test_no_class_is_too_large(size: object) -> None:
    too_large = []
    for where, node in classes():
        most = CONTRACTS.get(node.name, MAX_METHODS) if size is methods else MAX_ATTRIBUTES
        count = len(methods(node)) if size is methods else len(attributes(node))
        if count > most:
            too_large.append(f"{where} has {count}, allowed are {most}")
    assert not too_large


def test_the_sizes_are_counted_rightly() -> None:
    tree = ast.parse(
        "class A:\n"
        "    @overload\n"
        "    def f(self): ...\n"
        "    def f(self): self.x, self.y = 1, 2\n"
        "    async def g(self): self.x += 1; other.z = self.w\n"
    )
    [node] = tree.body
    assert isinstance(node, ast.ClassDef)
    assert methods(node) == ["f", "g"]
    assert attributes(node) == {"x", "y"}
