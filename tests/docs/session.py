"""Runs the blocks of one page, from the top to the end, in a separate folder."""

import ast
import asyncio
import inspect
import io
import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from coreason_client.server import running
from tests.browser import tools

from .addresses import DEFAULT_PORT, Addresses
from .blocks import Block, matches, parse
from .models import FakeModel
from .terminal import PYTEST_OPTIONS, Terminal

__all__ = ["PageError", "Session"]

_PATIENCE = 10.0  # for what a server prints after it has started
_TESTS = 100.0  # a whole contract of a log, with hundreds of waits for a disk that may be slow
_MAIN = re.compile(r"^(?:async )?def main\(", re.MULTILINE)
_JS_NAMES = (
    "const output = {append: (text) => process.stdout.write(text)};"
    "const fetchTicket = async () => 'ticket';"
)


class PageError(Exception):
    """A block did not do what its page says, with the page and the line."""


class Session:
    """The folder, the shell and the servers of a page."""

    def __init__(
        self, page: Path, folder: Path, known: dict[str, str], model: FakeModel | None = None
    ) -> None:
        self._page, self._model = page, model
        self._folder, self._addresses = folder / "work", Addresses(known)
        self._home = folder / "home"
        self._folder.mkdir()
        self._home.mkdir()
        self._terminal = Terminal(self._folder, folder / "terminal", self._addresses)
        self._unused: dict[str, Block] = {}  # files that no block has used so far
        self._notebook: dict[str, Any] = {"__name__": "__main__"}
        self._loop: asyncio.Runner | None = None
        self._servers: dict[int, ExitStack] = {}

    def run(self) -> None:
        """Run the blocks.

        Raises:
            BlockError: a block is not explained.
            PageError: a block failed, or printed something else than the page shows.
        """
        blocks = parse(self._page.read_text(encoding="utf-8"), str(self._page))
        with self._surroundings():
            for block in blocks:
                if block.not_run is None:
                    self._located(block, self._run)
            for block in list(self._unused.values()):
                self._located(block, self._use)
            self._run_tests()

    def _located(self, block: Block, run: Any) -> None:
        try:
            run(block)
        except PageError:
            raise
        except (Exception, SystemExit) as error:
            where = f"{self._page}:{block.line}"
            raise PageError(f"{where}: {type(error).__name__}: {error}") from error

    def _run(self, block: Block) -> None:
        code = self._addresses.real(block.code)
        for name in [*self._unused]:
            if re.search(rf"(?<![\w.-]){re.escape(name.removesuffix('.py'))}\b", code):
                del self._unused[name]
        for comment in block.comments:
            if comment.startswith("set: "):
                name, _, value = comment.removeprefix("set: ").partition("=")
                os.environ[name] = value
        if self._model is not None:
            self._model.script(block.comments)
        _check_data(block)
        if block.title is not None:
            self._write(block, code)
        elif block.language == "python":
            self._compare(block, self._python(block, code))
        elif block.language == "sh":
            self._shell(block, code)
        elif block.language == "js":
            self._compare(block, self._node(code))

    # Files

    def _write(self, block: Block, code: str) -> None:
        assert block.title is not None
        file = self._folder / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code, encoding="utf-8")
        if block.language == "python":
            # It may be as long as the file that it replaces, and written in the same second: then
            # Python would take the compiled code of that one.
            Path(cache_from_source(file)).unlink(missing_ok=True)
            compile(code, block.title, "exec")
            self._unused[block.title] = block
        self._forget_modules()

    def _use(self, block: Block) -> None:
        """Import a file that no block has used."""
        assert block.title is not None
        if not Path(block.title).name.startswith("test_"):
            name = block.title.removesuffix(".py").replace("/", ".")
            self._python(block, f"import {name}", as_printed=False)
            del self._unused[block.title]

    def _run_tests(self) -> None:
        files = [title for title in self._unused if Path(title).name.startswith("test_")]
        if files:
            self._located(
                self._unused[files[0]],
                lambda _: self._terminal.run(f"python -m pytest -q {' '.join(files)}", _TESTS),
            )

    def _forget_modules(self) -> None:
        for name, module in [*sys.modules.items()]:
            if (getattr(module, "__file__", None) or "").startswith(str(self._folder)):
                del sys.modules[name]

    # Programs

    def _python(self, block: Block, code: str, *, as_printed: bool = True) -> str:
        if as_printed and _MAIN.search(code) and len(re.findall(r"\bmain\(", code)) == 1:
            raise PageError(f"{self._page}:{block.line}: nothing calls main()")
        # Line numbers and file of the page, so that a traceback leads to it.
        placed = "\n" * (block.line - 1) + code
        with redirect_stdout(io.TextIOWrapper(io.BytesIO(), write_through=True)) as printed:
            if block.is_notebook:
                self._cell(placed)
            else:
                self._program(placed)
            printed.seek(0)
            return printed.read()

    def _program(self, code: str) -> None:
        main, before = ModuleType("__main__"), sys.modules["__main__"]
        sys.modules["__main__"] = main
        try:
            exec(compile(code, str(self._page), "exec"), vars(main))
        finally:
            sys.modules["__main__"] = before

    def _cell(self, code: str) -> None:
        self._loop = self._loop or asyncio.Runner()
        compiled = compile(code, str(self._page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(compiled, self._notebook)
        if inspect.iscoroutine(result):
            self._loop.run(result)

    def _serve(self, app: Any, *args: Any, **options: Any) -> None:
        """Serve in a thread until the page ends, or until its next server at the same port."""
        port = options.get("port") or (args[1] if len(args) > 1 else DEFAULT_PORT)
        if port in self._servers:
            self._servers.pop(port).close()
        stack = ExitStack()
        server = stack.enter_context(running(app))
        self._addresses.set_port(port, server.port)
        self._servers[port] = self._servers[server.port] = stack

    def _shell(self, block: Block, code: str) -> None:
        out = self._terminal.run(code)
        exported = self._terminal.environment()
        for name in ("PATH", "PYTHONPATH", "PWD", "OLDPWD", "SHLVL", "_"):
            exported.pop(name, None)
        os.environ.update(exported)
        self._compare(block, out)

    def _node(self, code: str) -> str:
        code = code.replace("./coreason.js", tools.CLIENT.as_uri())
        done = subprocess.run(
            [tools.node(), "--input-type=module", "--eval", _JS_NAMES + code],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if done.returncode or done.stderr:
            raise PageError(f"{self._page}: {done.stderr}")
        return done.stdout

    def _compare(self, block: Block, printed: str | Path) -> None:
        if block.output is None:
            return
        if isinstance(printed, Path):
            printed = self._read_until(printed, block.output)
        shown = self._addresses.printed(printed)
        if not matches(block.output, shown):
            where = f"{self._page}:{block.line}"
            raise PageError(
                f"{where}: the page shows\n{block.output}\nbut this was printed\n{shown}"
            )

    def _read_until(self, file: Path, expected: str) -> str:
        """Read what a shell printed; its servers may print more for a moment."""
        script = f"for _ in $(seq 100); do grep -qF {{}} {file} && break; sleep 0.1; done"
        last = [line for line in expected.splitlines() if line.strip() and "..." not in line][-1:]
        if last and not matches(expected, self._addresses.printed(file.read_text())):
            quoted = "'" + self._addresses.real(last[0].strip()).replace("'", "'\\''") + "'"
            self._terminal.run(script.format(quoted), 2 * _PATIENCE)
        return file.read_text()

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
            stack.callback(self._close)
            for name in [*os.environ]:
                if name.startswith("COREASON_") or name == "DEFAULT_MODEL":
                    patch.delenv(name)
            values = self._model.environment if self._model else {}
            for name, value in {**values, "HOME": str(self._home), **_TERMINAL}.items():
                patch.setenv(name, value)
            stack.callback(_restorer())
            patch.chdir(self._folder)
            patch.syspath_prepend(str(self._folder))
            patch.setattr("coreason_client.server.serve", self._serve)
            patch.setattr("uvicorn.run", self._serve)
            patch.setattr(socket, "getaddrinfo", _on_this_machine(socket.getaddrinfo))
            yield

    def _close(self) -> None:
        self._terminal.close()
        for stack in self._servers.values():
            stack.close()
        if self._loop is not None:
            self._loop.close()
        self._forget_modules()


_TERMINAL = {
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "LANG": "C.UTF-8",
    "PYTEST_ADDOPTS": PYTEST_OPTIONS,
}


def _restorer() -> Any:
    """Return a function that sets the environment as it is now."""
    before = dict(os.environ)

    def restore() -> None:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)

    return restore


def _on_this_machine(resolve: Any) -> Any:
    """Return a function that resolves only the names of this machine."""

    def resolve_here(host: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in (None, "", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::"):
            raise RuntimeError(f"{name} is not on this machine: tests use no other")
        return resolve(host, *args, **options)

    return resolve_here


def _check_data(block: Block) -> None:
    """Parse what claims to be data.

    Raises:
        ValueError: it is none.
    """
    if block.language == "json":
        json.loads(block.code)
    elif block.language == "toml":
        tomllib.loads(block.code)
    elif block.language == "yaml":
        list(yaml.safe_load_all(block.code))
