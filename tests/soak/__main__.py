"""Run the soak test with one or more seeds and print a table; exit with 1 if a value is wrong."""

import argparse
import asyncio
import logging
import re
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from typing import get_args

from .run import Part, Settings, soak
from .tally import Row


def main() -> int:
    given = _arguments()
    # The table has the number of reconnects; thousands of log lines would only hide it.
    logging.getLogger("coreason_client.cap").setLevel(logging.ERROR)
    runs: list[tuple[str, list[Row]]] = []
    for seed in given.seed:
        settings = Settings(
            seed=seed,
            streams=given.streams,
            packets=given.packets,
            replicas=given.replicas,
            seconds=given.seconds,
            half_open=given.half_open,
            part=given.part,
        )
        print(f"seed {seed}", file=sys.stderr)
        rows, errors = asyncio.run(_run(settings))
        runs.append((f"seed {seed}", rows))
        if _wrong(rows):
            print(_summary(errors), file=sys.stderr)
    print(_table(runs, markdown=given.markdown))
    wrong = [f"{seed}: {row.name} = {row.value}" for seed, rows in runs for row in _wrong(rows)]
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    return 1 if wrong else 0


async def _run(settings: Settings) -> tuple[list[Row], str]:
    """Run once; clean up also if SIGTERM ends the run."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await soak(settings)


def _wrong(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.right is False]


def _summary(errors: str) -> str:
    """Return each kind of line once, with its count, the first traceback, and the last lines."""
    kinds = Counter(re.sub(r"[0-9a-f-]{36}|[0-9]+", "N", line) for line in errors.splitlines())
    lines = [f"{number:6} {line}" for line, number in kinds.most_common(20)]
    _, found, traceback = errors.partition("Traceback")
    lines += f"{found}{traceback}".splitlines()[:40] if found else []
    return "\n".join([*lines, *errors.splitlines()[-40:]])


def _table(runs: Sequence[tuple[str, Sequence[Row]]], *, markdown: bool) -> str:
    """Return a table with a column for each run."""
    names = list(dict.fromkeys(row.name for _, rows in runs for row in rows))
    by_name = [{row.name: _cell(row) for row in rows} for _, rows in runs]
    lines = [["", *(seed for seed, _ in runs)]]
    lines += [[name, *(cells.get(name, "0") for cells in by_name)] for name in names]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [
        [lines_[0].ljust(widths[0]), *map(str.rjust, lines_[1:], widths[1:])] for lines_ in lines
    ]
    if not markdown:
        return "\n".join("  ".join(cells) for cells in shown)
    rule = ["-" * widths[0], *(f"{'-' * (width - 1)}:" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [shown[0], rule, *shown[1:]])


def _cell(row: Row) -> str:
    return f"{row.value} WRONG" if row.right is False else row.value


def _arguments() -> argparse.Namespace:
    defaults = Settings()
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, nargs="+", default=[defaults.seed])
    parser.add_argument("--streams", type=int, default=defaults.streams)
    parser.add_argument("--packets", type=int, default=defaults.packets)
    parser.add_argument(
        "--replicas", type=int, default=defaults.replicas, help="number of replicas, 2 or more"
    )
    parser.add_argument("--seconds", type=float, default=defaults.seconds)
    parser.add_argument("--half-open", type=int, help="half-open connections; 0 for none")
    parser.add_argument("--part", choices=get_args(Part), default=defaults.part)
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
