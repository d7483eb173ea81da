"""One log line when the internals of a library are not as expected.

Each package keeps its uses of undocumented names in one module. If such a name is
missing, the function there returns None or uses a slower method, and reports that here: lost speed
at DEBUG, a lost protection at WARNING.
"""

import logging
from functools import cache

logger = logging.getLogger("coreason_client")


@cache
def report_fallback(internals: str, effect: str) -> None:
    """Log, once per process, which internals are missing and what is slower without them."""
    logger.debug("%s not as expected in the installed version: %s", internals, effect)


@cache
def report_lost_protection(internals: str, effect: str) -> None:
    """Log, once per process, which internals are missing and what is unprotected without them."""
    logger.warning("%s not as expected in the installed version: %s", internals, effect)
