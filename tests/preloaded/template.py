"""The process that has imported the libraries; each request makes a copy of it.

A request is one byte with five descriptors: what to run, as JSON; stdin, stdout and stderr; and
where to write the process id and, at the end, the exit code.
"""

import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import termios
import threading
import types
from contextlib import suppress
from typing import Any, Final, TextIO

# Without OpenTelemetry, and so without redis-py, which imports it: the clients report to it if a
# program has imported it.
LIBRARIES: Final = (
    *("aiohttp", "anyio._backends._asyncio", "httpcore2", "httptools", "httpx2"),
    *("concurrent.futures.thread", "encodings.idna", "multiprocessing.spawn", "pydantic_settings"),
    *("sqlite3", "typer", "uvicorn.loops.uvloop", "uvloop"),
    *("prompt_toolkit.shortcuts", "rich.console", "rich.live", "rich.markdown", "rich.progress"),
    *("starlette.applications", "starlette.middleware", "starlette.responses"),
    *("uvicorn", "uvicorn.lifespan.on", "uvicorn.loops.auto"),
    *("uvicorn.protocols.http.auto", "uvicorn.protocols.websockets.auto"),
)
DESCRIPTORS: Final = 5


def main() -> None:
    """Serve requests until the other end is closed; a copy runs its program and ends with it."""
    control = socket.socket(fileno=int(sys.argv[1]))
    folders, libraries = list[str](), [*LIBRARIES]
    for argument in sys.argv[2:]:
        (folders if argument.startswith("/") else libraries).append(argument)
    usual = sys.path[:]
    sys.path[1:1] = folders
    for library in libraries:
        with suppress(ImportError):  # not each of them is installed everywhere
            importlib.import_module(library)
    sys.path[:] = usual  # a copy extends it itself
    assert threading.active_count() == 1, "copies would not have the threads of a library"
    gc.collect()
    gc.freeze()
    if (descriptors := _copied(control)) is not None:
        _run(_become(descriptors))


def _copied(control: socket.socket) -> list[int] | None:
    """Make copies; return the descriptors of its request in a copy, None at the end."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1024)
            _report_ends(reports)
        if control.fileno() in ready:
            byte, descriptors, _, _ = socket.recv_fds(control, 1, DESCRIPTORS)
            if not byte:
                control.close()
                return None
            pid = os.fork()
            if pid == 0:
                control.detach()  # `_become` closes it
                return descriptors
            *others, reports[pid] = descriptors
            for descriptor in others:
                os.close(descriptor)
            _report(reports[pid], pid)


def _report_ends(reports: dict[int, int]) -> None:
    """Report the exit codes of all processes that have ended."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        report = reports.pop(pid)
        _report(report, os.waitstatus_to_exitcode(status))
        os.close(report)


def _report(descriptor: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(descriptor, f"{number}\n".encode())


def _become(descriptors: list[int]) -> dict[str, Any]:
    """Make this copy what a fresh interpreter is at its start; return the request."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with os.fdopen(descriptors[0], closefd=False) as file:
        request: dict[str, Any] = json.load(file)
    for number in range(3):
        os.dup2(descriptors[1 + number], number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.setsid()
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return request


def _stream(descriptor: int, before: TextIO) -> TextIO:
    """Open a standard stream as an interpreter does at its start."""
    binary = open(descriptor, "rb" if descriptor == 0 else "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        binary,
        before.encoding,
        before.errors,
        newline="\n",
        line_buffering=descriptor == 2 or os.isatty(descriptor),
    )


def _run(request: dict[str, Any]) -> None:
    option, program, *arguments = request["arguments"]
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if option == "-m":
        sys.path[0] = os.getcwd()  # noqa: PTH109 - as a string
        sys.argv = [program, *arguments]
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = ""
        sys.argv = ["-c", *arguments]
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), module.__dict__)


if __name__ == "__main__":
    main()
