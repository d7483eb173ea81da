"""Runs the programs on the pages about moving to this package.

A pair is a `<div class="compare">` with two blocks of Python: the first one uses the other package.
With `data-differs` the outputs differ, and the page shows both in a table. With `data-serves` each
program makes an A2A application, and the output is what its agent answers.

`twelve-programs.md` has a task for each heading, with a program for each library that can do it.
The first line of a program is a comment with the name of its library.

Run as a program, it prints the outputs as JSON, so that one process imports slow packages. The
argument is a library whose programs of `twelve-programs.md` are run; without it, all are run that
need no other environment.
"""

import contextlib
import io
import json
import logging
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from .blocks import Block, parse

__all__ = [
    *("OURS", "PAGES", "TWELVE", "Addresses", "Pair", "Task"),
    *("pairs", "run_pairs", "singles", "statuses", "tasks"),
]

OURS = "coreason-client"
TWELVE = "twelve-programs.md"
PAGES = Path(__file__).parents[2] / "docs" / "migrate"
LATE = 10.0  # seconds for a line that a library logs in another thread
ANY_ADDRESS = "http://127.0.0.1:8000"
Addresses = Mapping[str, Callable[[], str]]
_PAIR = re.compile(
    r'^<div class="compare" markdown(?: data-(?P<kind>\w+))?>\n(?P<inside>.*?)^</div>$'
    r"(?:\n\n```text\n(?P<printed>.*?)^```$)?(?:\n\n(?P<table>(?:\|[^\n]*\n)+))?",
    re.MULTILINE | re.DOTALL,
)
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ERROR = re.compile(
    r"^\| `(?P<theirs>\w+)` \((?P<status>\d+)\b.*? \| `(?P<ours>\w+)`", re.MULTILINE
)


@dataclass(frozen=True)
class Pair:
    """Two programs; `printed` is the output of each that the page shows, if it shows one."""

    name: str
    before: str
    after: str
    kind: str | None
    printed: tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """A task of `twelve-programs.md`: the program of each library, and what all of them print."""

    name: str
    programs: Mapping[str, str]
    printed: str


def tasks() -> list[Task]:
    """Return the tasks of `twelve-programs.md`."""
    _, *sections = (PAGES / TWELVE).read_text(encoding="utf-8").split("\n## ")
    return [_task(*section.split("\n", 1)) for section in sections]


def _task(name: str, text: str) -> Task:
    blocks = parse(text, f"{TWELVE}, {name}")
    programs = {
        block.code.split("\n", 1)[0].removeprefix("# "): block.code
        for block in blocks
        if block.language == "python"
    }
    printed = blocks[-1].output or blocks[-1].code
    return Task(name, programs, printed.rstrip("\n"))


def pairs(page: str) -> list[Pair]:
    """Return the pairs of a page."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return [
        _pair(f"{page}:{text.count(chr(10), 0, m.start()) + 1}", m) for m in _PAIR.finditer(text)
    ]


def _pair(name: str, found: re.Match[str]) -> Pair:
    before, after = _BLOCK.findall(found["inside"])
    if found["kind"] == "differs":
        rows = re.findall(r"^\| [\w-]+ \| `(.*)` \|$", found["table"], re.MULTILINE)
        return Pair(name, before, after, "differs", tuple(f"{row}\n" for row in rows))
    printed = () if found["printed"] is None else (found["printed"],) * 2
    return Pair(name, before, after, found["kind"], printed)


def singles(page: str) -> list[Block]:
    """Return the programs of a page that are not in a pair."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return [block for block in parse(_PAIR.sub("", text), page) if block.language == "python"]


def statuses(page: str) -> dict[int, tuple[str, str]]:
    """Return the classes of errors that a page names for a status, theirs and ours."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return {int(row["status"]): (row["theirs"], row["ours"]) for row in _ERROR.finditer(text)}


def run_pairs(page: str, addresses: Addresses) -> Iterator[tuple[str, str, str]]:
    """Run the pairs of a page; yield the name of each with the two outputs."""
    for pair in pairs(page):
        run = _answer if pair.kind == "serves" else _output
        yield pair.name, run(pair.before, addresses), run(pair.after, addresses)


def _run_tasks(library: str) -> dict[str, str]:
    """Run the programs of one library; return the output of each task."""
    return {
        task.name: _output(task.programs[library], {}, task.printed).rstrip("\n")
        for task in tasks()
        if library in task.programs
    }


def _output(code: str, addresses: Addresses, expected: str = "") -> str:
    """Return what a program prints; what it logs in another thread may come later."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        _run(code, addresses)
        late = time.monotonic() + LATE
        while expected not in printed.getvalue() and time.monotonic() < late:
            time.sleep(0.01)
    logging.getLogger().handlers.clear()
    return printed.getvalue()


def _answer(code: str, addresses: Addresses) -> str:
    from coreason_client import A2AClient
    from tests.a2a.serving import serving

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = _run(code, {ANY_ADDRESS: lambda: url})["app"]
        with serving(app, listener), A2AClient.connect(url) as agent:
            answer = agent.send_message("hello").text
            events = [event.text for event in agent.send_message_stream("hello")]
    return f"{answer} {''.join(events)}"


def _run(code: str, addresses: Addresses) -> dict[str, Any]:
    for shown, real in addresses.items():
        if shown in code:
            code = code.replace(shown, real())
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "<page>", "exec"), names)
    return names


def _raised(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - its class is the result
        return type(error).__name__
    return "nothing"


def _openai_errors(found: Mapping[int, object]) -> Iterator[tuple[int, str, str]]:
    from coreason_client import LLMClient

    # By name, because mypy would take minutes to read these packages.
    openai = import_module("openai")
    with openai.OpenAI(max_retries=0) as theirs, LLMClient.from_env(max_retries=0) as ours:
        for status in found:
            model, asked = f"status-{status}", [{"role": "user", "content": "Say hello."}]
            yield (
                status,
                _raised(lambda: theirs.chat.completions.create(model=model, messages=asked)),  # noqa: B023
                _raised(lambda: ours.generate(asked, model)),  # noqa: B023
            )


def _litellm_errors(found: Mapping[int, object]) -> Iterator[tuple[int, str, str]]:
    from coreason_client import LLMClient

    litellm = import_module("litellm")

    with LLMClient.from_env(max_retries=0) as ours:
        for status in found:
            model, asked = f"status-{status}", [{"role": "user", "content": "Say hello."}]
            yield (
                status,
                _raised(
                    lambda: litellm.completion(f"openai/{model}", asked, num_retries=0)  # noqa: B023
                ),
                _raised(lambda: ours.generate(asked, model)),  # noqa: B023
            )


def main(*libraries: str) -> None:
    """Print the outputs of the pages about models."""
    if libraries:
        json.dump({"tasks": {library: _run_tasks(library) for library in libraries}}, sys.stdout)
        return
    litellm: Any = import_module("litellm")
    litellm.suppress_debug_info = True  # it prints advice to stdout
    pages = ("openai.md", "litellm.md")
    found = {
        "outputs": [row for page in pages for row in run_pairs(page, {})],
        "singles": [_output(block.code, {}) for page in pages for block in singles(page)],
        "errors": {
            "openai.md": list(_openai_errors(statuses("openai.md"))),
            "litellm.md": list(_litellm_errors(statuses("litellm.md"))),
        },
        "tasks": {library: _run_tasks(library) for library in (OURS, "openai", "litellm")},
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
