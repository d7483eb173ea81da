"""The option with which curl sends the credential of an A2A agent. Pure.

The rules for where a credential goes are those of the client: they are applied to a request with a
mark instead of a credential, and the mark is looked for in the result.
"""

from typing import Final
from urllib.parse import unquote, urlsplit

from .._http._types import Request, timeouts_from
from ..a2a._auth import credentials
from ..a2a.types import AgentCard
from ..server.page import BEARER_OPTION, KEY_MARK, CurlOption

__all__ = ["curl_option"]

_URL: Final = "http://agent.invalid/"


def curl_option(card: AgentCard) -> CurlOption:
    """Return an option of curl and its value, in which `KEY_MARK` stands for the credential."""
    bare = Request("POST", _URL, {}, b"", timeouts_from(None))
    sent = credentials(KEY_MARK, card).apply(bare)
    if query := urlsplit(sent.url).query:
        return "--url-query", unquote(query)
    for name, value in sent.headers.items():
        if KEY_MARK in value:
            return "-H", f"{name}: {value}"
        if value.startswith("Basic "):
            return "-u", KEY_MARK  # curl encodes `user:password` itself
    return BEARER_OPTION
