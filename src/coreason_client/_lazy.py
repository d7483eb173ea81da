"""Packages whose exported names are imported when they are first used (PEP 562)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy(
    package: str, modules: Mapping[str, str], names: Sequence[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package; `modules` maps each name to its module."""

    def get(name: str) -> object:
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(module, package), name)
        setattr(sys.modules[package], name, value)  # `get` is not called for it again
        return value

    return get, lambda: list(names)
