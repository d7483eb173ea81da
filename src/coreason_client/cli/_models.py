"""What the commands need of the AI client; it is loaded when one of them does."""

from typing import TYPE_CHECKING, Any

from ._extras import need_llm
from .exits import ExitCode, Failure, exit_code_of

if TYPE_CHECKING:
    from coreason_client.llm import LLMClient, LLMError

    from ..agents.llm import Agent

__all__ = ["client", "model_agent", "told"]

# The client speaks of its arguments, and the person at the terminal knows the options.
_OPTIONS = {
    ", or give api_key": "",
    "give base_url, or set": "set",
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
        raise told(error) from None
    except ValueError as error:
        raise Failure(_as_options(str(error)), ExitCode.USAGE) from None


def told(error: "LLMError") -> "LLMError | Failure":
    """Return what to raise for an error: of one found before anything was sent, our own words."""
    return error if error.attempts else Failure(_as_options(str(error)), exit_code_of(error))


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
        raise told(error) from None


def _as_options(sentence: str) -> str:
    for name, option in _OPTIONS.items():
        sentence = sentence.replace(name, option)
    return sentence
