"""A request that a fake A2A agent received. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

from ..a2a._dialects import V03, V10, Dialect
from ..a2a._v03._rest import V03_REST
from ._hidden import HiddenHeaders
from ._loopback import HTTPRequest

__all__ = ["A2ARequest", "request_of"]

Binding = Literal["JSONRPC", "HTTP+JSON"]

_CARD = re.compile(r"/\.well-known/agent(?:-card)?\.json$")
_PREFIX = re.compile(r"^/a2a(?=/)")


@dataclass(frozen=True, slots=True)
class A2ARequest:
    """A request as the fake agent has read it.

    Attributes:
        operation: the method of `A2AClient`, such as "send_message_stream" or "get_task";
            "get_card" for the card, "" for a request that belongs to no operation.
        binding: "JSONRPC" or "HTTP+JSON".
        version: the version of the protocol, "1.0" or "0.3".
        params: the parameters, as they were sent.
        path: the path of the request.
        headers: the headers by name in lower case; the representation has no credentials.
    """

    operation: str
    binding: Binding
    version: str
    params: dict[str, Any]
    path: str
    headers: HiddenHeaders = field(repr=False)

    @property
    def text(self) -> str:
        """The text of the message, empty if the request has none."""
        message = self.params.get("message")
        if not isinstance(message, dict):
            return ""
        parts = message.get("parts") or message.get("content")  # the latter in HTTP+JSON of 0.3
        found = parts if isinstance(parts, list) else []
        return "".join(str(part.get("text", "")) for part in found if isinstance(part, dict))


def request_of(request: HTTPRequest) -> A2ARequest:
    """Read a request; what is not A2A has no operation."""
    headers = HiddenHeaders(request.headers)
    version = headers.get("a2a-version") or "0.3"
    dialect = V03 if version.startswith("0") else V10
    body = _object(request.body)
    is_rpc = "jsonrpc" in body
    if is_rpc:
        operation = _named(dialect.methods).get(str(body.get("method")), "")
        params = _as_object(body.get("params"))
    else:
        operation, params = _rest_operation(dialect, request, body)
    return A2ARequest(
        operation=operation,
        binding="JSONRPC" if is_rpc else "HTTP+JSON",
        version=dialect.version,
        params=params,
        path=request.path,
        headers=headers,
    )


def _rest_operation(
    dialect: Dialect, request: HTTPRequest, body: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    if _CARD.search(request.path):
        return "get_card", {}
    path = _PREFIX.sub("", request.path)
    query = dict(parse_qsl(request.target.partition("?")[2], keep_blank_values=True))
    rest = V03_REST if dialect is V03 else dialect
    for name, (method, template) in rest.paths.items():
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", template)
        match = re.fullmatch(pattern, path)
        if match is not None and method == request.method:
            found = {key: unquote(value) for key, value in match.groupdict().items()}
            return name, {**query, **found, **body}
    return "", {**query, **body}


def _named(methods: Mapping[str, str]) -> dict[str, str]:
    return {method: operation for operation, method in methods.items()}


def _object(body: bytes) -> dict[str, Any]:
    try:
        return _as_object(json.loads(body)) if body else {}
    except ValueError:
        return {}


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
