"""Work in a separate process."""

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
    """Run work in a new interpreter, with these environment variables."""

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
