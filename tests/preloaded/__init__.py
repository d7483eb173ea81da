"""Python processes that start quickly: copies of a process that has imported the libraries.

Most of the time that a fresh interpreter takes goes into imports of libraries. Only those are
imported beforehand: each process imports the modules of this project itself.
"""

from .piped import PipedProcess
from .process import PreloadedProcess
from .run import run_preloaded

__all__ = ["PipedProcess", "PreloadedProcess", "run_preloaded"]
