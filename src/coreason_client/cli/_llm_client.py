"""The AI client for commands; it is loaded when a command uses it."""

from typing import TYPE_CHECKING, Any

from coreason_client import ArgumentError

from ._options import usage_error
from ._required_extras import require_llm
from .exits import Failure

if TYPE_CHECKING:
    from coreason_client.llm import AsyncLLMClient, LLMError

    from ..agents.llm import Agent

__all__ = ["create_client", "model_agent", "with_option_names"]

# The command line options that set arguments of the client.
_OPTION_NAMES = {
    "base_url": "--base-url",
    "max_tokens": "--max-tokens",
    "temperature": "--temperature",
}


def create_client(**options: Any) -> "AsyncLLMClient":
    """Create a client from the environment; `options` take precedence.

    Raises:
        MissingExtraError: the AI client is not installed.
        Failure: an option or an environment variable is invalid.
    """
    require_llm()
    from coreason_client.llm import AsyncLLMClient, LLMError

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
