"""Clients from the environment and `.env`: their arguments, and those that functions share."""

import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _ownership
from .._http._checks import check_key
from ..errors import ArgumentError, MissingExtraError
from ._client_core import ClientCore, check_model_name
from ._route import check_base_url, known_host
from .credentials import check_key_like
from .errors import LLMRequestError
from .providers.profiles import PROFILES

if TYPE_CHECKING:
    from .settings import Configuration

ClientT = TypeVar("ClientT", bound=ClientCore)


def environment_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a client from the environment; `options` take precedence.

    Raises:
        LLMRequestError: a variable has an invalid value.
    """
    configuration = read_configuration()
    base_url = options.get("base_url", configuration.base_url)
    return client_arguments(configuration, base_url) | options


def read_configuration() -> "Configuration":
    """Read the environment and `.env`.

    Raises:
        LLMRequestError: a variable has an invalid value.
    """
    return _settings_reader()()


def import_async_client() -> None:
    """Import what an async client from the environment needs, before there is an event loop.

    This takes up to a second, for which the first call would block the loop.

    Raises:
        MissingExtraError: the extra `llm` is not installed.
    """
    _settings_reader()
    try:
        from . import _session_async  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_extra() from error


@cache
def _settings_reader() -> "Callable[[], Configuration]":
    """Return the function that reads the settings; its package is imported on first use."""
    try:
        from .settings import read_settings
    except ModuleNotFoundError as error:
        raise missing_extra() from error
    return read_settings


def client_arguments(configuration: "Configuration", base_url: str | None) -> dict[str, Any]:
    """Return the arguments of a client; errors name the variable that is wrong.

    The keys and base URLs of single providers are used only if no custom base URL is set, because
    that may be a proxy for all providers.

    Raises:
        LLMRequestError: a variable has an invalid value.
    """
    arguments: dict[str, Any] = {
        "api_key": configuration.api_key,
        "base_url": configuration.base_url,
        "default_model": configuration.default_model,
        "timeout": configuration.timeout,
        "max_retries": configuration.max_retries,
    }
    try:
        if configuration.base_url is not None:
            check_base_url(configuration.base_url, "LLM_API_BASE_URL")
        if configuration.api_key is not None:
            check_key(configuration.api_key, "LLM_API_KEY")
        for profile in PROFILES:
            if (key := configuration.keys.get(profile.name)) is not None:
                check_key_like(key, profile.key_variable)
        check_model_name("DEFAULT_MODEL", configuration.default_model)
        base_urls = _base_urls(configuration)
    except ArgumentError as error:
        raise LLMRequestError(str(error), argument_error=error) from None
    if base_url is None or known_host(base_url):
        arguments["keys"] = configuration.keys
        arguments["base_urls"] = base_urls
    return arguments


def _base_urls(configuration: "Configuration") -> dict[str, str]:
    """Return the base URLs of providers; that of Azure must be valid only if its key is set."""
    urls = {**configuration.base_urls}
    if "azure" not in configuration.keys:
        urls.pop("azure", None)
    elif "azure" in urls:
        check_base_url(urls["azure"], "AZURE_OPENAI_ENDPOINT")
    return urls


def missing_extra() -> MissingExtraError:
    """Return the error for a package of the extra `llm` that is not installed."""
    return MissingExtraError("the AI client", "llm")


class SharedClients:
    """The clients of the functions, each with the configuration that it was created for."""

    def __init__(self) -> None:
        self._clients: dict[type, tuple[Configuration, Any]] = {}
        self._lock = threading.Lock()
        _ownership.register(self)

    def client(self, kind: type[ClientT]) -> ClientT:
        """Return the client for the current configuration."""
        configuration = read_configuration()
        known = self._clients.get(kind)
        if known is None or known[0] is not configuration:
            with self._lock:
                return self._create(kind, configuration)
        current: ClientT = known[1]
        return current

    def _create(self, kind: type[ClientT], configuration: "Configuration") -> ClientT:
        known = self._clients.get(kind)
        if known is not None and known[0] is configuration:  # another thread was faster
            current: ClientT = known[1]
            return current
        client: Any = kind(**client_arguments(configuration, configuration.base_url))
        client._abandon.detach()  # the connections outlive the client, for the next one
        if known is not None:
            client._sessions = known[1]._sessions
        self._clients[kind] = configuration, client
        created: ClientT = client
        return created

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent process may hold."""
        self._lock = threading.Lock()


_shared = SharedClients()


def shared_client(kind: type[ClientT]) -> ClientT:
    """Return the client of the functions for single calls.

    Raises:
        LLMRequestError: a variable has an invalid value.
    """
    return _shared.client(kind)
