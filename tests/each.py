"""`each`, for tests with very many small cases."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from _pytest.mark import ParameterSet


def each(
    names: str | tuple[str, ...], values: Iterable[Any], shown: Callable[[Any], object] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with each of the values, as `pytest.mark.parametrize` does, but as one test.

    A test costs some milliseconds in each of the processes that collect, run and report it, which
    is many times what a small case takes. Fixtures are shared by all values. If it fails, all
    values with which it fails are named.
    """
    cases = list(values)
    assert cases, "a test without cases proves nothing"
    assert not any(isinstance(case, ParameterSet) for case in cases), "marks belong to a test"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        taken = (names,) if isinstance(names, str) else names
        signature = inspect.signature(test)
        assert signature.parameters.keys() >= set(taken), f"the test does not take {names}"
        rest = [each for each in signature.parameters.values() if each.name not in taken]

        @wraps(test)
        def with_each(**given: Any) -> None:
            failed: list[tuple[Any, Exception]] = []
            for case in cases:
                values = (case,) if isinstance(names, str) else case
                try:
                    test(**given, **dict(zip(taken, values, strict=True)))
                except Exception as error:  # noqa: BLE001 - raised below
                    failed.append((case, error))
            if failed:
                first = failed[0][1]
                first.add_note(f"It fails with {len(failed)} of {len(cases)} values of {names}:")
                for case, raised in failed:
                    first.add_note(f"  {shown(case)}: {type(raised).__name__}")
                raise first

        with_each.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return with_each

    return decorate
