"""One DEBUG line when the internals of a library are not as expected.

Each package keeps its uses of undocumented names in a module `_internals`. Where such a name is
missing, the function there returns None or does the same in a slower way, and reports it here.
"""

import logging
from functools import cache

__all__ = ["report_fallback"]

logger = logging.getLogger("coreason_client")


@cache
def report_fallback(internals: str, effect: str) -> None:
    """Log, once in a process, which internals are missing and what that means."""
    logger.debug("%s not as expected in the installed version: %s", internals, effect)
