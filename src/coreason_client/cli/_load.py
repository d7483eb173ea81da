"""Loads what a command needs: objects named on the command line, extras, and the AI client."""

import importlib
import logging
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from coreason_client import ArgumentError, MissingExtraError

from ._options import usage_error
from .exits import ExitCode, Failure

if TYPE_CHECKING:
    from coreason_client.llm import AsyncLLMClient, LLMError

    from ..agents.llm import Agent

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
        file, folder = Path(module_name).resolve().with_suffix(""), Path.cwd()
        below = file.is_relative_to(folder)
        right = f"{'.'.join(file.relative_to(folder).parts) if below else file.name}:{attribute}"
        where = "" if below else f" in {file.parent}"
        rule = f"must be given by its module, not its file: {right}{where}"
        raise Failure(f"{what} {rule}, got {name!r}", ExitCode.USAGE)
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


# Optional dependencies

_LLM_MODULES = ("aiohttp", "genai_prices", "pydantic_settings")


def require_llm() -> None:
    """Check for the AI client before anything is started.

    Raises:
        MissingExtraError: the AI client is not installed.
    """
    if any(find_spec(name) is None for name in _LLM_MODULES):
        raise MissingExtraError("the AI client", "llm")


def require_server(feature: str) -> None:
    """Check for the server kit before anything is started; `feature` is named in the error.

    Raises:
        MissingExtraError: the server kit is not installed.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtraError(feature, "server")


# The AI client, which is loaded when a command uses it


# The command line options that set arguments of the client.
_OPTION_NAMES = {
    "base_url": "--base-url",
    "max_tokens": "--max-tokens",
    "temperature": "--temperature",
}


def create_client(base_url: str | None = None) -> "AsyncLLMClient":
    """Create a client from the environment; a base URL takes precedence.

    Raises:
        MissingExtraError: the AI client is not installed.
        Failure: an option or an environment variable is invalid.
    """
    require_llm()
    from coreason_client.llm import AsyncLLMClient, LLMError

    options = {} if base_url is None else {"base_url": base_url}
    try:
        return AsyncLLMClient.from_env(**options)
    except LLMError as error:
        raise with_option_names(error) from None
    except ArgumentError as error:
        raise usage_error(error, _OPTION_NAMES) from None


def with_option_names(error: "LLMError") -> "LLMError | Failure":
    """Return the error, or one that names the option if an argument is invalid."""
    invalid = error.argument_error
    return error if invalid is None else usage_error(invalid, _OPTION_NAMES)


def model_agent(name: str, system: str | None, *, tell_errors: bool) -> "Agent":
    """Return a model as an agent, after checking that it can be called.

    Raises:
        MissingExtraError: the AI client is not installed.
        Failure: the model has no key, or an environment variable is invalid.
    """
    client = create_client()
    from coreason_client.llm import LLMError

    from ..agents.llm import llm_agent

    try:
        # This checks the key and the arguments; nothing is sent before the stream is read.
        client.stream([{"role": "user", "content": "?"}], name)
        return llm_agent(name, client=client, system=system, tell_errors=tell_errors)
    except LLMError as error:
        raise with_option_names(error) from None
