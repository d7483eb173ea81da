"""Public faces whose names are loaded when they are first used (PEP 562)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

__all__ = ["lazy"]


def lazy(
    face: str, homes: Mapping[str, str], names: Sequence[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module; `homes` says where each name lives."""

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        value: object = getattr(import_module(home, face), name)
        setattr(sys.modules[face], name, value)  # the next time it is simply there
        return value

    return get, lambda: list(names)
