"""Finding the agent that `coreason serve` is asked to serve."""

import importlib
import logging
import sys
from pathlib import Path

from .exits import ExitCode, Failure

__all__ = ["load_agent"]

logger = logging.getLogger("coreason_client.cli")


def load_agent(name: str) -> object:
    """Import `module:attribute`, with the current directory first on sys.path.

    Raises:
        Failure: it is not of that form, or cannot be imported, or is not there.
    """
    module_name, _, attribute = name.partition(":")
    if not (module_name and attribute):
        raise Failure(
            f"an agent must be named as module:attribute, such as my_agent:assist, got {name!r}",
            ExitCode.USAGE,
        )
    sys.path.insert(0, str(Path.cwd()))
    found: object = _import(module_name)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            sentence = f"the module {module_name} has no {attribute!r}"
            raise Failure(sentence, ExitCode.USAGE) from None
    return found


def _import(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _broken(name, error) from None
        raise Failure(
            f"there is no module {name}, neither in {Path.cwd()} nor among the installed packages",
            ExitCode.USAGE,
        ) from None
    except Exception as error:  # noqa: BLE001 - a module of somebody else's may raise anything
        raise _broken(name, error) from None


def _broken(name: str, error: Exception) -> Failure:
    logger.info("importing %s failed", name, exc_info=error)
    words = f"the module {name} cannot be imported: {type(error).__name__}: {error}"
    return Failure(f"{words} (-v shows where)")
