"""Work in a process of its own."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

__all__ = ["in_new_process"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def in_new_process(
    work: Callable[Parameters, Result], environment: Mapping[str, str] | None = None
) -> Callable[Parameters, Result]:
    """Make work run in a new interpreter, with these variables set from its start."""

    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        before = dict(os.environ)
        os.environ.update(environment or {})
        try:
            with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
                return process.submit(work, *args, **kwargs).result()
        finally:
            os.environ.clear()
            os.environ.update(before)

    return run
