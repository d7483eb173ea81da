"""The source uses nothing that Windows or macOS lacks, except where a condition excludes them.

The type stubs of the standard library, which mypy brings, say what each platform has. Nobody needs
the other platforms for these tests: they read the source, and run programs in which the modules of
the project see a standard library without the names that Windows lacks.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mypy
import pytest

from tests.each import each

SRC = Path(__file__).parent.parent / "src"
STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"
PLATFORMS = ("win32", "darwin")
FILES = {str(path.relative_to(SRC)): path for path in sorted(SRC.rglob("*.py"))}

# Methods and arguments that exist everywhere and fail on Windows.
FAILING = {
    "add_signal_handler": "raises NotImplementedError",
    "add_reader": "raises NotImplementedError with the usual event loop",
    "add_writer": "raises NotImplementedError with the usual event loop",
    "rename": "raises FileExistsError where Linux replaces the file, as `replace` does everywhere",
    "select": "waits for sockets only",
    "pass_fds": "raises ValueError",
    "preexec_fn": "raises ValueError",
    "start_new_session": "is ignored",
}
RECEIVERS = {"add_reader": "loop", "add_writer": "loop", "select": "select"}  # of these methods
INTERESTING = {*FAILING, "fdopen", "open", "read_text", "text", "write_text"}
JUDGED = (ast.Import, ast.ImportFrom, ast.Attribute, ast.Call, ast.Constant)
FOLDERS = ("/dev", "/etc", "/proc", "/sys", "/tmp", "/usr", "/var")

# What may be used all the same, and why.
ALLOWED = {
    ("coreason_client/cli/prompt/_reader.py", "readline"): "an ImportError is suppressed",
    ("coreason_client/server/process/_address_lock.py", "/dev/fd"): "it may be missing",
    ("coreason_client/server/process/_address_lock.py", "/proc/self/fd"): "likewise",
    ("coreason_client/server/process/_address_lock.py", "/proc/self/ns/net"): "likewise",
    ("coreason_client/server/process/_draining_server.py", "/dev/tty"): "likewise",
    ("coreason_client/server/process/_listen.py", "add_reader"): "asyncio listens on Windows",
    (
        "coreason_client/cli/_question.py",
        "select",
    ): "an OSError is suppressed",
    ("coreason_client/cli/chat/_agent_process.py", "pass_fds"): "--kill is refused on Windows",
    ("coreason_client/cli/chat/_agent_process.py", "select"): "--kill is refused on Windows",
    ("coreason_client/cli/chat/_agent_process.py", "start_new_session"): "likewise",
    ("coreason_client/llm/observe/_spans.py", "rename"): "a span, not a file",
    ("coreason_client/server/log/_backup.py", "rename"): "the target does not exist",
}


# What a platform has


@cache
def names_on(module: str, platform: str) -> frozenset[str]:
    """Return the names that a module of the standard library has; none if it is missing."""
    path = STUBS.joinpath(*module.split("."))
    for stub in (path.with_suffix(".pyi"), path / "__init__.pyi"):
        if stub.exists():
            return frozenset(_defined(ast.parse(stub.read_text("utf-8")).body, platform))
    return frozenset()


def _defined(body: list[ast.stmt], platform: str) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.If(test, then, otherwise):
                value = holds(test, platform)
                yield from _defined(then if value is not False else [], platform)
                yield from _defined(otherwise if value is not True else [], platform)
            case ast.FunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)):
                yield name
            case ast.ImportFrom(names=names):
                yield from (alias.asname for alias in names if alias.asname)


def missing(module: str, platform: str) -> frozenset[str]:
    """Return the names that Linux has and the platform has not."""
    return names_on(module, "linux") - names_on(module, platform)


def is_absent(module: str, platform: str) -> bool:
    """Return True for a module that only other platforms have."""
    return bool(names_on(module, "linux")) and not names_on(module, platform)


def holds(test: ast.expr, platform: str) -> bool | None:
    """Return what a condition is on a platform, None if that is not known."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            value = holds(operand, platform)
            return None if value is None else not value
        case ast.BoolOp(operator, operands):
            decisive = isinstance(operator, ast.Or)
            values = [holds(operand, platform) for operand in operands]
            return decisive if decisive in values else None if None in values else not decisive
        case ast.Compare(ast.Attribute(ast.Name(module), name), [operator], [ast.Constant(wanted)]):
            actual = {
                ("sys", "platform"): platform,
                ("os", "name"): "nt" if platform == "win32" else "posix",
            }.get((module, name))
            equal = isinstance(operator, ast.Eq)
            return None if actual is None else (actual == wanted) is equal
        case ast.Call(ast.Name("hasattr"), [ast.Name(module), ast.Constant(name)]):
            return name not in missing(module, platform)
    return None


# What the source uses there


def reachable(node: ast.AST, platform: str) -> Iterator[ast.AST]:
    """Return the nodes that can run on a platform."""
    todo = [node]
    while todo:
        yield (found := todo.pop())
        todo += _parts(found, platform)


def _parts(node: ast.AST, platform: str) -> Iterator[ast.AST]:
    skipped: object = None
    if isinstance(node, ast.If | ast.IfExp):
        value = holds(node.test, platform)
        skipped = {True: node.orelse, False: node.body, None: None}[value]
    for name in node._fields:
        field = getattr(node, name)
        if isinstance(field, ast.AST) and field is not skipped:
            yield field
        elif isinstance(field, list) and field is not skipped:
            for part in field:
                yield from [part] if isinstance(part, ast.AST) else []
                if isinstance(part, ast.If | ast.expr) and _ends(node, part, platform):
                    break


def _ends(node: ast.AST, part: ast.AST, platform: str) -> bool:
    """Return True if the parts of the node after this one cannot run."""
    match part:
        case ast.If(test, body, otherwise):
            value = holds(test, platform)
            taken = body if value else otherwise if value is False else []
            return bool(taken) and isinstance(taken[-1], ast.Return | ast.Raise | ast.Continue)
        case ast.expr() if isinstance(node, ast.BoolOp):
            return holds(part, platform) is isinstance(node.op, ast.Or)
    return False


def problems(tree: ast.AST, platform: str) -> Iterator[tuple[str, str]]:
    """Return what the code uses and the platform lacks: a name, and the line with the reason."""
    lacks = f"is missing on {platform}"
    for node in reachable(tree, platform):
        if not isinstance(node, JUDGED):  # most nodes, for which `match` takes long
            continue
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Import(names):
                absent = [alias.name for alias in names if is_absent(alias.name, platform)]
                yield from ((name, f"line {line}: {name} {lacks}") for name in absent)
            case ast.ImportFrom(str(module), names, 0):
                absent = [a.name for a in names if a.name in missing(module, platform)]
                yield from ((name, f"line {line}: {module}.{name} {lacks}") for name in absent)
            case ast.Attribute(ast.Name(module), name) if name in missing(module, platform):
                yield name, f"line {line}: {module}.{name} {lacks}"
            case ast.Attribute(_, "SO_REUSEADDR") if platform == "win32":
                yield "SO_REUSEADDR", f"line {line}: two processes can listen at the same address"
            case ast.Call() if platform == "win32":
                yield from ((name, f"line {line}: {reason}") for name, reason in _failing(node))
            case ast.Constant(str(text)) if text.startswith(FOLDERS):
                yield text, f"line {line}: {text!r} does not exist on every system"


def _failing(call: ast.Call) -> Iterator[tuple[str, str]]:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    given = {str(keyword.arg): keyword.value for keyword in call.keywords}
    if not {name, *given} & INTERESTING:
        return
    path = ast.unparse(function)
    receiver = path.rpartition(".")[0]
    for used in {name, *given} & FAILING.keys():
        if receiver.endswith(RECEIVERS.get(used, "")):
            yield used, f"{used} {FAILING[used]}"
    if _is_text(name, path, call, given) and "encoding" not in given:
        yield name, f"{name} without an encoding reads and writes another one on Windows"


def _is_text(name: str, path: str, call: ast.Call, given: dict[str, ast.expr]) -> bool:
    """Return True for a call that reads or writes text, and has no encoding as its position."""
    if name in ("read_text", "write_text"):
        return len(call.args) <= (name == "write_text")
    if path.startswith("subprocess."):
        return "text" in given
    if name not in ("open", "fdopen") or path == "os.open":
        return False
    place = 1 if path in ("open", "os.fdopen") else 0
    modes = [*call.args[place : place + 1], *(v for k, v in given.items() if k == "mode")]
    constants = [str(mode.value) for mode in modes if isinstance(mode, ast.Constant)]
    if any("b" in mode or not set(mode) <= set("rwaxt+") for mode in constants):
        return False  # bytes, or the method of another object
    return bool(constants) or (place == 1 and not modes)


@each("name", FILES)
def test_a_file_uses_what_every_platform_has(name: str) -> None:
    tree = ast.parse(FILES[name].read_text("utf-8"))
    found = [
        problem
        for platform in PLATFORMS
        for used, problem in problems(tree, platform)
        if (name, used) not in ALLOWED
    ]
    assert not found, f"{name}: {found}"


def test_every_exception_is_used() -> None:
    for name, used in ALLOWED:
        tree = ast.parse(FILES[name].read_text("utf-8"))
        assert used in {found for found, _ in problems(tree, "win32")}, (name, used)


@pytest.mark.parametrize(
    ("code", "platforms"),
    [
        ("import fcntl", "win32"),
        ("import os\nos.fork()", "win32"),
        ("import os\nos.sched_getaffinity(0)", "win32 darwin"),
        ("import select\nselect.epoll()", "win32 darwin"),
        ("import signal\nsignal.signal(signal.SIGHUP, f)", "win32"),
        ("from signal import pthread_sigmask", "win32"),
        ("import socket\ns.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)", "win32"),
        ("loop.add_signal_handler(2, f)", "win32"),
        ("import os\nos.rename(a, b)", "win32"),
        ("Path('/tmp/x')", "win32 darwin"),
        ("open(path)", "win32"),
        ("loop.add_reader(s, f)", "win32"),
        ("quotas.add_reader(s)", ""),
        ("s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)", "win32"),
        ("open(path, 'w', encoding='utf-8')", ""),
        ("path.open('a')", "win32"),
        ("path.open('rb')", ""),
        ("path.read_text()", "win32"),
        ("path.write_text('a', 'utf-8')", ""),
        ("subprocess.run(c, text=True)", "win32"),
        ("import sys\nif sys.platform != 'win32':\n import fcntl\nelse:\n pass", ""),
        ("import sys\nif sys.platform == 'win32':\n import fcntl", "win32"),
        ("import os, sys\ndef f():\n if sys.platform == 'win32':\n  return\n os.fork()", ""),
        ("import os, sys\ndef f():\n if sys.platform == 'darwin':\n  return\n os.fork()", "win32"),
        ("import os\nif hasattr(os, 'fork'):\n os.fork()", ""),
        ("import os\nx = not hasattr(os, 'getuid') or os.getuid()", ""),
        ("import os\nx = hasattr(os, 'getuid') or os.getuid()", "win32"),
        ("import os\nx = os.name == 'posix' and os.getuid()", ""),
        ("import signal\nx = getattr(signal, 'SIGHUP', None)", ""),
    ],
)
def test_the_reader_of_the_source(code: str, platforms: str) -> None:
    tree = ast.parse(code)
    assert platforms.split() == [name for name in PLATFORMS if list(problems(tree, name))]


# The modules of the project with the standard library of Windows

CHANGED = (
    *("fcntl", "grp", "os", "pty", "pwd", "readline", "resource", "select", "signal", "socket"),
    *("sys", "termios", "time", "tty"),
)
HIDE = """
import builtins, json, sys, types

absent = json.loads(sys.argv.pop(1))
constants = {("sys", "platform"): "win32", ("os", "name"): "nt"}
usual_import = builtins.__import__

class Module(types.ModuleType):
    def __getattr__(self, name):
        if name in absent[self.__name__]:
            raise AttributeError(name)
        return constants.get((self.__name__, name)) or getattr(sys.modules[self.__name__], name)

def import_(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__", "").partition(".")[0]
    if name not in absent or level or importer not in ("coreason_client", "coreason_manifest"):
        return usual_import(name, globals, locals, fromlist, level)
    if absent[name] is None:
        raise ModuleNotFoundError(name)
    usual_import(name)
    return Module(name)

builtins.__import__ = import_
"""

USE = """
import asyncio, coreason_client, pkgutil
from importlib import import_module
from coreason_client import A2AClient, AsyncCAPClient, CAPClient
from coreason_client.server import AgentApp, SQLiteStreamLog, listen_unix, running
from coreason_client.server.run import serve

for module in pkgutil.walk_packages(coreason_client.__path__, "coreason_client."):
    if not module.name.endswith("__main__"):
        import_module(module.name)

async def agent(request, stream):
    await stream.write(f"You said {stream.question}")

async def ask(url):
    async with AsyncCAPClient(url, "key") as client:
        return await client.ask("b")

with running(AgentApp(agent, a2a=True, log=SQLiteStreamLog(sys.argv[1]))) as server:
    with CAPClient(server.url, "key") as client, A2AClient.connect(server.url) as a2a:
        print(client.ask("a"), asyncio.run(ask(server.url)), a2a.send_message("c").text, sep=", ")
for refused in (lambda: listen_unix("socket"), lambda: serve(AgentApp(agent), max_connections=9)):
    try:
        refused()
    except ValueError as error:
        print(error)
"""


def as_on_windows(program: str, *arguments: str) -> list[str]:
    """Return a command that runs a program with the names hidden that Windows lacks."""
    absent = {
        name: None if is_absent(name, "win32") else sorted(missing(name, "win32"))
        for name in CHANGED
    }
    return [sys.executable, "-c", HIDE + program, json.dumps(absent), *arguments]


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_clients_and_servers_work_without_what_windows_lacks(tmp_path: Path) -> None:
    said, *refusals = run(as_on_windows(USE, "streams.db"), tmp_path).splitlines()
    assert said == "You said a, You said b, You said c"
    assert refusals == [
        "uds is not possible on Windows",
        "max_connections cannot be applied on Windows, got 9",
    ]


def test_the_command_works_without_what_windows_lacks(tmp_path: Path) -> None:
    program = "from coreason_client.__main__ import main\nmain()"
    question = "How do I resume a stream?"
    assert "Last-Event-ID" in run(as_on_windows(program, "chat", question), tmp_path)
