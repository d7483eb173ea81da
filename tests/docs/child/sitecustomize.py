"""Loaded by each Python that a shell block starts: `serve` listens at the port of the harness."""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_MODULE = "coreason_client.server.run"


class _Finder:
    """Changes the default port of `serve` when its module has been loaded."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == _MODULE else None
        if spec is None:
            return None
        loader: Any = spec.loader
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            host, _ = module.serve.__defaults__
            module.serve.__defaults__ = host, int(os.environ["DOCS_PORT"])

        loader.exec_module = exec_module
        return spec


if "DOCS_PORT" in os.environ:
    sys.meta_path.insert(0, _Finder)
