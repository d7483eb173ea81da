"""Python processes that start quickly: copies of a process that has imported the libraries.

Most of the time that a fresh interpreter takes goes into imports, so libraries are imported
beforehand. Each process imports the modules of this project itself, unless its test says that they
may be imported beforehand too, with `PROJECT` or `WITH_STORES`.
"""

from .piped import PipedProcess
from .process import PROJECT, WITH_STORES, PreloadedProcess
from .run import run_preloaded

__all__ = ["PROJECT", "WITH_STORES", "PipedProcess", "PreloadedProcess", "run_preloaded"]
