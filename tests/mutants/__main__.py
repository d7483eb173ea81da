"""Run the tests of each mutant against a copy of the project that has the mutant's change.

A mutant is killed if a test fails. It survives if all tests pass: then no test protects the rule.
The exit code is 0 only if every mutant is killed.

The working tree is not changed. First every entry of the table is compared with the source, and the
tests of all mutants run once without a change: a test that always fails proves nothing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from .mutant import Mutant, find, mutate, problems
from .table import MUTANTS

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "docs", "examples", "images", "js", "README.md", "pyproject.toml")
SECONDS = 180.0  # limit for the tests of one mutant; a timeout counts as killed
KILLED, HUNG, SURVIVED, BROKEN = "killed", "hung", "SURVIVED", "BROKEN"
# Exit codes of pytest. Others mean errors of collection or usage, which prove nothing.
VERDICTS = {0: SURVIVED, 1: KILLED}


class Copy:
    """A copy of the project, in which mutants run one after another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                skip = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, folder / name, ignore=skip)
            else:
                shutil.copy(source, folder / name)

    def test(self, tests: Sequence[str], *, first_failure: bool = True) -> tuple[int | None, str]:
        """Run tests; return the exit code (None after a timeout) and the output."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        if first_failure:
            command.append("-x")
        environment = os.environ | {
            "PYTHONPATH": str(self._folder / "src"),
            # Bytecode would be reused if a changed file has the same size and time.
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_PROFILE": "ci",
        }
        try:
            done = subprocess.run(
                [*command, *tests],
                cwd=self._folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS if first_failure else None,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, ""
        return done.returncode, done.stdout

    def run(self, mutant: Mutant) -> tuple[str, str]:
        """Run the tests of a mutant; return the verdict and the output."""
        path = find(mutant, self._folder)
        original = path.read_text(encoding="utf-8")
        changed = mutate(mutant, original, python=path.suffix == ".py")
        path.write_text(changed, encoding="utf-8")
        try:
            code, printed = self.test(mutant.tests)
        finally:
            path.write_text(original, encoding="utf-8")
        return HUNG if code is None else VERDICTS.get(code, BROKEN), printed


def main() -> int:
    given = _arguments()
    mutants = [mutant for mutant in MUTANTS if all(word in _words(mutant) for word in given.words)]
    if given.list:
        print(*map(_words, mutants), sep="\n")
        return 0
    if wrong := problems(MUTANTS, ROOT):
        print(*wrong, f"{len(wrong)} entries do not match the source", sep="\n", file=sys.stderr)
        return 2
    if not mutants:
        print(f"no mutant matches all of these words: {given.words}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder) / str(number)) for number in range(given.jobs)]
        if not given.no_baseline and not _baseline(copies[0], mutants):
            return 2
        verdicts = _run_all(mutants, copies, verbose=given.verbose)
    alive = [verdict for verdict in verdicts if verdict in (SURVIVED, BROKEN)]
    print(f"{len(mutants)} mutants, {len(mutants) - len(alive)} killed, {len(alive)} not killed")
    return 1 if alive else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "words", nargs="*", help="run only mutants whose path and name contain all these words"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="mutants to run at the same time (default: 2)"
    )
    parser.add_argument("--list", action="store_true", help="list the mutants without running them")
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not run the tests without a change first"
    )
    parser.add_argument("--verbose", action="store_true", help="show the output of the tests")
    return parser.parse_args()


def _words(mutant: Mutant) -> str:
    return f"{mutant.path}: {mutant.name}"


def _baseline(copy: Copy, mutants: Sequence[Mutant]) -> bool:
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    code, printed = copy.test(tests, first_failure=False)
    if code != 0:
        print(printed, "the tests fail without a mutant; fix them first", sep="\n", file=sys.stderr)
    return code == 0


def _run_all(mutants: Sequence[Mutant], copies: Sequence[Copy], *, verbose: bool) -> list[str]:
    idle: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        idle.put(copy)

    def run(mutant: Mutant) -> str:
        copy, began = idle.get(), time.monotonic()
        try:
            verdict, printed = copy.run(mutant)
        finally:
            idle.put(copy)
        print(f"{verdict:8} {time.monotonic() - began:5.1f} s  {_words(mutant)}", flush=True)
        if verbose or verdict == BROKEN:
            print(printed, flush=True)
        return verdict

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(run, mutants))


if __name__ == "__main__":
    sys.exit(main())
