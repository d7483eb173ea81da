"""The recordings of one test: replayed, or made again if the user asks for it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from ._record import Recorder, record
from ._replay import Replay, replay

__all__ = ["StartRecording", "recordings_of_test"]

StartRecording: TypeAlias = Callable[..., Recorder | Replay]


@contextmanager
def recordings_of_test(
    folder: Path, test: str, *, records: bool, has_failed: Callable[[], bool]
) -> Iterator[StartRecording]:
    """Return a function that serves a recording of a test until the block ends.

    With `records` it records the service instead; a test that has failed changes no file.
    """
    stack = ExitStack()

    def start(upstream: str, name: str = "", **options: Any) -> Recorder | Replay:
        file = folder / f"{_file_name(name or test)}.jsonl"
        if records:
            return stack.enter_context(record(file, upstream, **options))
        if not file.exists():
            raise FileNotFoundError(
                f"there is no {file}: run this test once with --coreason-record"
            )
        return stack.enter_context(replay(file))

    yield start
    failure = AssertionError("the test failed") if has_failed() else None
    stack.__exit__(None if failure is None else AssertionError, failure, None)


def _file_name(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name)
