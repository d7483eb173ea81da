"""What the commands need of the AI client; it is loaded when one of them does."""

from typing import TYPE_CHECKING, Any

from coreason_client import ArgumentError

from ._options import wrong_usage
from ._required_extras import need_llm
from .exits import Failure

if TYPE_CHECKING:
    from coreason_client.llm import LLMClient, LLMError

    from ..agents.llm import Agent

__all__ = ["client", "model_agent", "with_option_names"]

# The options from which arguments of the client come.
_OPTIONS = {
    "base_url": "--base-url",
    "max_tokens": "--max-tokens",
    "temperature": "--temperature",
}


def client(**options: Any) -> "LLMClient":
    """Make a client from the environment; options go before it.

    Raises:
        MissingExtraError: the AI client is not installed.
        Failure: an option or a variable cannot be.
    """
    need_llm()
    from coreason_client.llm import LLMClient, LLMError

    try:
        return LLMClient.from_env(**options)
    except LLMError as error:
        raise with_option_names(error) from None
    except ArgumentError as error:
        raise wrong_usage(error, _OPTIONS) from None


def with_option_names(error: "LLMError") -> "LLMError | Failure":
    """Return the error, or one that names the option if an argument of the call is wrong."""
    wrong = error.argument_error
    return error if wrong is None else wrong_usage(wrong, _OPTIONS)


def model_agent(name: str, system: str | None, *, tell_errors: bool) -> "Agent":
    """Return a model as an agent, after a look at whether it can be asked at all.

    Raises:
        MissingExtraError: the AI client is not installed.
        Failure: there is no key for the model, or a variable is wrong.
    """
    asking = client()
    from coreason_client.llm import LLMError

    from ..agents.llm import llm_agent

    try:
        # Nothing is sent until somebody reads the stream, but everything is checked.
        asking.stream([{"role": "user", "content": "?"}], name)
        return llm_agent(name, client=asking, system=system, tell_errors=tell_errors)
    except LLMError as error:
        raise with_option_names(error) from None
