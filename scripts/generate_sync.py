"""Generates the sync files of the clients from the async files, which are written by hand.

    python scripts/generate_sync.py           write the sync files
    python scripts/generate_sync.py --check   fail if a sync file is out of date

Each file of `PAIRS` is translated word by word: `await` and `async` are removed, names are
replaced, and ruff sorts the imports and formats the result. Code between the comments
`# async only: begin` and `# async only: end` is omitted. If a word of async code remains, the
script fails: add the word to `NAMES` (for code) or to `PHRASES` (for docstrings and comments).
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

__all__ = [
    "NAMES",
    "PAIRS",
    "PHRASES",
    "LeftoverError",
    "generate",
    "main",
    "translate",
    "with_sync_names",
]

SOURCE = Path(__file__).resolve().parent.parent / "src" / "coreason_client"

# The async file, relative to SOURCE, and the sync file that is generated from it.
PAIRS = {
    "_drive_async.py": "_drive_sync.py",
    "_http/_merging_async.py": "_http/_merging_sync.py",
    "_http/_response_async.py": "_http/_response_sync.py",
    "a2a/_streams_async.py": "a2a/_streams_sync.py",
    "a2a/_transport_async.py": "a2a/_transport_sync.py",
    "a2a/aclient.py": "a2a/client.py",
    "cap/_streams_async.py": "cap/_streams_sync.py",
    "cap/aclient.py": "cap/client.py",
    "llm/aclient.py": "llm/client.py",
    "llm/batches.py": "llm/_batches_sync.py",
    "llm/functions.py": "llm/_functions_sync.py",
    "llm/streams.py": "llm/_streams_sync.py",
    "llm/tools/_run_async.py": "llm/tools/_run_sync.py",
}

# Text of docstrings and comments that differs in the sync files, replaced in this order.
PHRASES = {
    "The async ": "The sync ",
    "the async ": "the sync ",
    "works on asyncio and on trio": "safe to use from many threads",
    ", sync or async,": "",
    "an async network": "a network",
    "an async iterator": "an iterator",
    "Async transports": "Sync transports",
    "Async responses": "Sync responses",
    "An async context": "A context",
    "An async iterator": "An iterator",
    "  # noqa: C901 - one loop, step by step": "",
}

# Names whose sync form is not the name without "Async".
NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "ApiKey": "SyncApiKey",
    "AsyncAuthSender": "SyncAuthSender",
    "AsyncCardSender": "SyncCardSender",
    "AsyncOpener": "SyncOpener",
    "AsyncResponse": "SyncResponse",
    "AsyncSender": "SyncSender",
    "StopAsyncIteration": "StopIteration",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "aiter_raw": "iter_raw",
    "anext": "next",
    "apply_async": "apply",
    "authorization_async": "authorization",
    "close_items_async": "close_items",
    "close_stream_async": "close_stream",
    "default_async_resolver": "default_resolver",
    "drive_async": "drive",
    "given_tools_async": "given_tools",
    "lock_async": "lock",
    "perform_async": "perform",
    "open_async": "open",
    "run_calls_async": "run_calls",
    "open_response_async": "open_response",
    "run_async": "run",
    "set_async": "set",
}

_ASYNC_ONLY = re.compile(r"(?ms)^ *# async only: begin\n.*?^ *# async only: end\n")
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_CLASS = re.compile(r"^(_?)Async(?=[A-Z])")
_AWAITABLE = re.compile(r"\bAwaitable\[(\w+)\]|, Awaitable\b(?!\[)|\bAwaitable, ")
_KEYWORD = re.compile(r"\bawait |\basync (?=def |for |with )")
# A loop that only yields. The last group makes sure that the loop has no second line.
_YIELD = re.compile(r"(?m)^( *)for (\w+) in (.+):\n\1    yield \2\n(?!\n*\1(?:    +\S|else:))")
_LEFTOVER = re.compile(r"(?i)async|\bawait|\b_*a(?:close|closing|enter|exit|iter|next)\w*")

_MODULES = {
    # A public module with both halves keeps its name.
    Path(a).stem: Path(b).stem
    for a, b in PAIRS.items()
    if a.endswith(("_async.py", "aclient.py"))
} | {
    # Pairs that are written by hand.
    "_async": "_sync",
    "_steps_async": "_steps_sync",
    "_sender_async": "_sender_sync",
    "_session_async": "_session_sync",
}
# A function that a module defines, and an entry of `__all__` for a function that is generated.
_FUNCTION = re.compile(r"(?m)^(?:async )?def ([a-z]\w*)")
_SYNC_FUNCTION = re.compile(r'(?m)^ *"[a-z]\w*_sync",\n')
_FIXES = "F401,F811,I,RUF022,SIM117"  # unused and repeated imports, order, nested `with`


class LeftoverError(ValueError):
    """The output contains a word of async code; `line` is its line number, from 1."""

    def __init__(self, word: str, line: int) -> None:
        super().__init__(f"line {line} still contains {word!r}: add it to NAMES or PHRASES")
        self.word = word
        self.line = line


def translate(text: str) -> str:
    """Return the sync form of async source text, not yet formatted.

    Raises:
        LeftoverError: a word of async code remains.
    """
    text = _ASYNC_ONLY.sub("", text)
    for phrase, replacement in PHRASES.items():
        text = text.replace(phrase, replacement)
    text = _WORD.sub(_sync_name, text)
    text = _AWAITABLE.sub(lambda match: match.group(1) or "", text)
    text = _KEYWORD.sub("", text)
    text = _YIELD.sub(r"\1yield from \3\n", text)
    for number, line in enumerate(text.splitlines(), 1):
        if (left := _LEFTOVER.search(line)) is not None:
            raise LeftoverError(left.group(), number)
    return text


def _sync_name(match: re.Match[str]) -> str:
    name = match.group()
    return NAMES.get(name) or _MODULES.get(name) or _CLASS.sub(r"\1", name)


def with_sync_names(text: str) -> str:
    """Return the text of a module whose functions have a sync form of another name, with `_sync`.

    The names are replaced in definitions, in `__all__` and in backticks.
    """
    text = _SYNC_FUNCTION.sub("", text)
    names = _FUNCTION.findall(text)
    text = _FUNCTION.sub(lambda match: f"{match.group()}_sync", text)
    for name in set(names):
        text = text.replace(f'"{name}"', f'"{name}_sync"').replace(f"`{name}`", f"`{name}_sync`")
    return text


def generate(source: Path, target: Path) -> str:
    """Return the complete text of a sync file.

    Raises:
        LeftoverError: a word of async code remains.
        subprocess.CalledProcessError: ruff cannot parse the result.
    """
    header = (
        f"# Generated from {source.name} by scripts/generate_sync.py.\n"
        "# Do not edit this file: edit that one and run `make sync`.\n"
    )
    text = source.read_text()
    if source.name == "functions.py":
        text = with_sync_names(text)
    text = header + translate(text)
    text = _ruff("check", "--quiet", "--fix-only", "--select", _FIXES, text=text, target=target)
    return _ruff("format", "--quiet", text=text, target=target)


def _ruff(*command: str, text: str, target: Path) -> str:
    done = subprocess.run(  # noqa: S603 - the arguments are ours
        [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(target), "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def main(arguments: list[str] | None = None, root: Path = SOURCE) -> int:
    """Write or check the sync files; return the exit code."""
    parser = argparse.ArgumentParser(description="Generate the sync files from the async files.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is out of date"
    )
    check = parser.parse_args(arguments).check
    stale = 0
    for source, target in ((root / a, root / b) for a, b in PAIRS.items()):
        try:
            text = generate(source, target)
        except LeftoverError as error:
            print(f"{source}: {error}", file=sys.stderr)  # noqa: T201
            return 1
        if target.exists() and target.read_text() == text:
            continue
        if check:
            stale = 1
            print(f"{target} is out of date: run `make sync`", file=sys.stderr)  # noqa: T201
        else:
            target.write_text(text)
            print(f"wrote {target}")  # noqa: T201
    return stale


if __name__ == "__main__":
    sys.exit(main())
