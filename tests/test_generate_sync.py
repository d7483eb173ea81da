"""The script that generates the sync half of the clients from the async half."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import generate_sync
from scripts.generate_sync import (
    NAMES,
    PAIRS,
    PHRASES,
    SOURCE,
    LeftoverError,
    translate,
    with_sync_names,
)

ASYNC_NAMES = ("aclient.py", "*_async.py")
# Modules with both halves: they import the generated one.
WITH_SYNC_NAMES = {"llm/batches.py", "llm/functions.py", "llm/streams.py"}
# Both sides are written by hand. (In `_http`: one deals with event loops, the other with threads.)
BY_HAND = {
    "_http/_async.py",
    "a2a/_grpc/_sender_async.py",
    "llm/_session_async.py",
    "llm/tools/_steps_async.py",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("async def f() -> None:\n    await g()\n", "def f() -> None:\n    g()\n"),
        ("async with a() as b:\n    pass\n", "with a() as b:\n    pass\n"),
        ("x = [await f(await g())]\n", "x = [f(g())]\n"),
        ("class AsyncThing(_AsyncBase):\n", "class Thing(_Base):\n"),
        ("def f() -> Awaitable[bytes]: ...\n", "def f() -> bytes: ...\n"),
        ("from abc import A, Awaitable, B\n", "from abc import A, B\n"),
        ("from abc import Awaitable, B\n", "from abc import B\n"),
        ("await self.aclose()\n", "self.close()\n"),
        ("from ._drive_async import AsyncClosing\n", "from ._drive_sync import Closing\n"),
        ("asynchronous = 1\n", None),
    ],
)
def test_async_words_go_and_names_are_replaced(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(LeftoverError):
            translate(text)
    else:
        assert translate(text) == expected


def test_functions_beside_their_sync_form_get_another_name() -> None:
    text = (
        '__all__ = [\n    "ask",\n    "ask_sync",\n]\n\n\n'
        'async def ask() -> None:\n    """Like `ask`."""\n    await client.ask()\n'
    )
    assert translate(with_sync_names(text)) == (
        '__all__ = [\n    "ask_sync",\n]\n\n\n'
        'def ask_sync() -> None:\n    """Like `ask_sync`."""\n    client.ask()\n'
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("    for x in f(y):\n        yield x\n    z()\n", "    yield from f(y)\n    z()\n"),
        ("async for x in await f():\n    yield x\n", "yield from f()\n"),
        ("for x in y:\n    yield x\n\n\ndef f(): ...\n", "yield from y\n\n\ndef f(): ...\n"),
    ],
)
def test_a_loop_that_only_yields_becomes_yield_from(text: str, expected: str) -> None:
    assert translate(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "for x in y:\n    yield x\n    z()\n",
        "for x in y:\n    yield x\n\n    z()\n",
        "for x in y:\n    yield x\nelse:\n    z()\n",
        "for x in y:\n    yield x + 1\n",
        "for x, y in z:\n    yield x\n",
    ],
)
def test_a_loop_that_does_more_stays(text: str) -> None:
    assert translate(text) == text


def test_code_that_only_the_async_side_has_is_left_out() -> None:
    text = (
        "class A:\n"
        "    # async only: begin\n"
        "    def __await__(self): ...\n"
        "\n"
        "    # async only: end\n"
        "    def f(self): ...\n"
    )
    assert translate(text) == "class A:\n    def f(self): ...\n"


@pytest.mark.parametrize(
    ("text", "word", "line"),
    [
        ("pass\nimport asyncio\n", "async", 2),
        ('"""Waits with await."""\n', "await", 1),
        ("x = runAsync()\n", "Async", 1),
        ("def f() -> Awaitable[list[int]]: ...\n", "Await", 1),
        ("def __anew__(self) -> None:\n    self.aclose_all()\n", "aclose_all", 2),
        ("# async only: begin\n", "async", 1),
    ],
)
def test_an_async_word_that_is_left_is_an_error(text: str, word: str, line: int) -> None:
    with pytest.raises(LeftoverError) as caught:
        translate(text)
    assert (caught.value.word, caught.value.line) == (word, line)


def test_the_generated_files_are_up_to_date() -> None:
    script = str(Path(generate_sync.__file__))
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files of one pair, the only one that the script knows."""
    monkeypatch.setattr(generate_sync, "PAIRS", {"a_async.py": "a_sync.py"})
    (tmp_path / "a_async.py").write_text("async def f() -> None:\n    await g()\n")
    return tmp_path


def test_a_file_that_is_not_up_to_date_is_reported_and_rewritten(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = copy / "a_sync.py"
    assert generate_sync.main(["--check"], copy) == 1
    assert "a_sync.py is out of date" in capsys.readouterr().err
    assert not target.exists()
    assert generate_sync.main([], copy) == 0
    assert "Generated from a_async.py" in target.read_text()
    assert target.read_text().endswith("def f() -> None:\n    g()\n")
    assert generate_sync.main(["--check"], copy) == 0
    target.write_text(target.read_text() + "\n# edited by hand\n")
    assert generate_sync.main(["--check"], copy) == 1


def test_a_leftover_is_reported_with_its_file_and_nothing_is_written(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "a_async.py").write_text("import asyncio\n")
    assert generate_sync.main([], copy) == 1
    error = capsys.readouterr().err
    assert "a_async.py" in error
    assert "line 1 still contains 'async'" in error
    assert not (copy / "a_sync.py").exists()


def test_imports_and_public_names_are_sorted_and_unused_imports_removed(copy: Path) -> None:
    (copy / "a_async.py").write_text(
        "from collections.abc import AsyncGenerator, Awaitable, Generator\n\n"
        '__all__ = ["AsyncB", "AsyncGenerator", "C"]\n\n'
        "AsyncB: Generator[Awaitable[int]]\nC: int\n"
    )
    assert generate_sync.main([], copy) == 0
    text = (copy / "a_sync.py").read_text()
    assert "import Generator\n" in text
    assert '__all__ = ["B", "C", "Generator"]' in text


def test_every_async_file_has_a_generated_twin() -> None:
    found = {str(path.relative_to(SOURCE)) for name in ASYNC_NAMES for path in SOURCE.rglob(name)}
    assert found - BY_HAND | WITH_SYNC_NAMES == set(PAIRS)


def test_only_generated_files_say_that_they_are() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.read_text().startswith("# Generated from ")
    }
    assert found == set(PAIRS.values())


def test_the_tables_hold_nothing_that_is_not_used() -> None:
    text = "".join((SOURCE / source).read_text() for source in PAIRS)
    words = {node for node in [*NAMES, *PHRASES] if node not in text}
    assert not words


@pytest.mark.parametrize(("source", "target"), PAIRS.items())
def test_both_sides_define_the_same_things(source: str, target: str) -> None:
    def names(path: str) -> list[str]:
        text = generate_sync._ASYNC_ONLY.sub("", (SOURCE / path).read_text())
        defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        return [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, defined)]

    assert len(names(source)) == len(names(target)) > 0
