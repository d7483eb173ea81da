"""`WorkSpan`: the span of a tool call or of a run. This class reports nothing."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

_NO_CONTEXT = nullcontext()


class WorkSpan:
    """A context manager around a piece of work; the span begins and ends with the block.

    The block may be in a generator, because the span is current only where `current` is used.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End the span; an exception that leaves the block is its failure."""

    def current(self) -> AbstractContextManager[Any]:
        """Make the span current for a block, which must not yield."""
        return _NO_CONTEXT

    def set_result(self, result: Any) -> None:
        """Record a result; it becomes part of the span only if content is recorded."""

    def set_error(self, kind: str) -> None:
        """Record a failure that leaves the block without an exception; `kind` is its type."""


NO_SPAN = WorkSpan()
