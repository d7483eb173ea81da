"""A copy of the template behaves as a fresh interpreter does."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.preloaded import PipedProcess, PreloadedProcess, run_preloaded

LIMIT = 30.0
GIVEN = "ä\r\nb".encode()

PROBE = """
import os, signal, sys, threading
print(sys.argv, os.getcwd(), sys.path, __name__, sys.warnoptions)
print(sorted(os.environ.items()), os.getsid(0) == os.getpid())
print(sorted(os.listdir("/proc/self/fd"))[:4])
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream.encoding, stream.errors, stream.line_buffering, stream.newlines, stream.isatty())
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
    print(signal.getsignal(number))
print(threading.current_thread() is threading.main_thread(), threading.active_count())
print([name for name in sys.modules if name.startswith(("coreason", "opentelemetry", "redis"))])
print(repr(sys.stdin.read()))
print("to stderr", file=sys.stderr)
"""
ENVIRONMENT = {
    "PATH": "/bin",
    "LANG": "C.UTF-8",
    "PYTHONPATH": "/here:/there",
    "PYTHONWARNINGS": "error",
    "ONE": "two",
}


def preloaded(arguments: Sequence[str], folder: Path) -> tuple[int, str, str]:
    done = run_preloaded(arguments, stdin=GIVEN, env=ENVIRONMENT, cwd=folder, timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


def fresh(arguments: Sequence[str], folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        input=GIVEN,
        capture_output=True,
        env=ENVIRONMENT,
        cwd=folder,
        start_new_session=True,
        timeout=LIMIT,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("option", ["-c", "-m"])
def test_a_program_finds_what_a_fresh_interpreter_has(option: str, tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    arguments = [option, PROBE if option == "-c" else "probe", "one", "two"]
    expected = fresh(arguments, tmp_path)
    assert expected[0] == 0
    assert preloaded(arguments, tmp_path) == expected


@pytest.mark.parametrize(
    "source",
    [
        "",
        "raise SystemExit(7)",
        "raise SystemExit('a sentence')",
        "import os; os._exit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import atexit; atexit.register(print, 'at the end'); print('before')",
        "import threading; threading.Timer(0.05, print, ['later']).start(); print('before')",
        "open('/dev/null').close; import gc; f = open('/dev/null'); del f; gc.collect()",
    ],
)
def test_a_program_ends_as_in_a_fresh_interpreter(source: str, tmp_path: Path) -> None:
    assert preloaded(["-c", source], tmp_path)[:2] == fresh(["-c", source], tmp_path)[:2]


@pytest.mark.parametrize(
    "source", ["raise ValueError('wrong')", "raise KeyboardInterrupt", "1 +", "import nothing_here"]
)
def test_an_error_has_the_same_exit_code_and_the_same_last_line(
    source: str, tmp_path: Path
) -> None:
    code, _, errors = preloaded(["-c", source], tmp_path)
    fresh_code, _, fresh_errors = fresh(["-c", source], tmp_path)
    assert (code, errors.splitlines()[-1]) == (fresh_code, fresh_errors.splitlines()[-1])


def test_a_terminal_is_its_controlling_terminal() -> None:
    ours, theirs = pty.openpty()
    source = "import sys; print('ready'); sys.stdin.readline()"
    process = PreloadedProcess(
        ["-c", source], stdin=theirs, stdout=theirs, stderr=theirs, terminal=True
    )
    os.close(theirs)
    assert os.read(ours, 100).rstrip() == b"ready"
    os.write(ours, b"\x03")
    assert process.wait(LIMIT) == -signal.SIGINT
    os.close(ours)


def test_the_end_is_waited_for_and_signals_are_sent() -> None:
    with open(os.devnull, "r+b") as null:  # noqa: PTH123 - for its descriptor
        nothing = null.fileno()
        source = "import time; time.sleep(60)"
        sleeping = [
            PreloadedProcess(["-c", source], stdin=nothing, stdout=nothing, stderr=nothing)
            for _ in range(2)
        ]
    for process, number in zip(sleeping, (signal.SIGTERM, signal.SIGKILL), strict=True):
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(LIMIT) == -number
        assert process.poll() == -number
        process.kill()  # it has ended: nobody gets the signal
    assert not Path(f"/proc/{sleeping[0].pid}").exists()


def test_a_process_is_spoken_to_through_pipes(tmp_path: Path) -> None:
    source = "import os, sys; print(os.getcwd(), flush=True); print(sys.stdin.readline())"
    process = PipedProcess(["-c", source], cwd=tmp_path)
    assert process.line() == str(tmp_path)
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    assert process.line() == "hello"
    assert process.wait(LIMIT) == 0
    process.close(LIMIT)
    waiting = PipedProcess(["-c", "import sys; sys.stdin.read()"])
    waiting.close(LIMIT)
    assert waiting.returncode == -signal.SIGKILL


def test_a_program_that_takes_too_long_is_killed() -> None:
    source = "import os, time; os.fork(); print('begun', flush=True); time.sleep(60)"
    done = run_preloaded(["-c", source], timeout=1.0)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "begun\nbegun\n")


def test_libraries_are_imported_once_and_from_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, usual = tmp_path / "given", tmp_path / "usual"
    for folder, name in ((given, "first"), (usual, "first"), (usual, "second")):
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text("import os; NUMBER = os.getpid()")
    monkeypatch.setenv("PYTHONPATH", str(usual))
    source = """
import os, sys
assert {"first", "second"} <= set(sys.modules)
import first, second
print(first.__file__, second.__file__, sys.path[:3], first.NUMBER, second.NUMBER)
assert first.NUMBER != os.getpid()
"""
    libraries = (str(given), "first", "second")
    done = [run_preloaded(["-c", source], timeout=LIMIT, libraries=libraries) for _ in range(2)]
    assert done[0].stdout == done[1].stdout, "another process has imported them"
    found = f"{given / 'first.py'} {usual / 'second.py'} {['', str(usual)]!r}"[:-1]
    assert done[0].stdout.startswith(found), done[0].stderr


def test_a_library_that_starts_a_thread_cannot_be_copied(tmp_path: Path) -> None:
    source = (
        "import threading; timer = threading.Timer(60, print); timer.daemon = True; timer.start()"
    )
    (tmp_path / "threaded.py").write_text(source)
    with pytest.raises((AssertionError, ConnectionError)):
        run_preloaded(["-c", ""], timeout=LIMIT, libraries=(str(tmp_path), "threaded"))
