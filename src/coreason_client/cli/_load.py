"""Imports objects that are named on the command line, such as the agent for `coreason serve`."""

import importlib
import logging
import sys
from pathlib import Path

from .exits import ExitCode, Failure

__all__ = ["load_agent", "load_object"]

logger = logging.getLogger("coreason_client.cli")


def load_agent(name: str) -> object:
    """Import the agent `module:attribute`; see `load_object`."""
    return load_object(name, "the agent", "my_agent:assist")


def load_object(name: str, what: str, example: str) -> object:
    """Import `module:attribute`, with the current directory first on sys.path.

    `what` and `example` are used in the error.

    Raises:
        Failure: the name has another form, the import fails, or there is no such attribute.
    """
    module_name, _, attribute = name.partition(":")
    if not (module_name and attribute):
        raise Failure(
            f"{what} must be given as MODULE:ATTRIBUTE, such as {example}, got {name!r}",
            ExitCode.USAGE,
        )
    if module_name.endswith(".py"):
        module = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise Failure(
            f"{what} must be given by its module, not its file: {module}:{attribute}, got {name!r}",
            ExitCode.USAGE,
        )
    if sys.path[:1] != [str(Path.cwd())]:
        sys.path.insert(0, str(Path.cwd()))
    found: object = _import(module_name)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            message = f"module {module_name} has no attribute {attribute!r}"
            raise Failure(message, ExitCode.USAGE) from None
    return found


def _import(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _import_failure(name, error) from None
        raise Failure(
            f"module {name} not found in {Path.cwd()} or among the installed packages",
            ExitCode.USAGE,
        ) from None
    except Exception as error:  # noqa: BLE001 - an imported module may raise anything
        raise _import_failure(name, error) from None


def _import_failure(name: str, error: Exception) -> Failure:
    logger.info("importing %s failed", name, exc_info=error)
    message = f"module {name} cannot be imported: {type(error).__name__}: {error}"
    return Failure(f"{message} (-v shows the traceback)")
