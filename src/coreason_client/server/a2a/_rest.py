"""HTTP+JSON requests and responses of both versions of the protocol. No I/O."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from coreason_client.a2a import _dialects
from coreason_client.a2a._v03._rest import V03_REST
from coreason_client.a2a.errors import A2AJSONRPCError, InvalidParamsError
from coreason_client.server.a2a._v03._conversions import PARAMS_FROM_V03_REST, RESULTS_TO_V03_REST

from ._error_formats import rest_error, status_of
from ._incoming import wrong
from ._jsonrpc import HalfCharacters
from ._protocol import V03, V10, json_name, with_json_names


class _Rule(NamedTuple):
    verb: str
    pattern: re.Pattern[str]
    operation: str


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """The operation of a path, and the parameters in it."""

    operation: str
    params: dict[str, str]
    version: str


def _rules(paths: Mapping[str, tuple[str, str]]) -> Iterator[_Rule]:
    # Longer paths first: `/tasks/{id}` would match `/tasks/{id}:subscribe` too.
    for operation, (verb, path) in sorted(paths.items(), key=lambda item: -len(item[1][1])):
        pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+?)", path))
        yield _Rule(verb, pattern, operation)
        if operation == "resubscribe":  # the specification says POST, its proto file GET
            yield _Rule("GET", pattern, operation)


_RULES: Final = {V10: tuple(_rules(_dialects.V10.paths)), V03: tuple(_rules(V03_REST.paths))}
_TENANT: Final = re.compile(r"/(?P<tenant>[^/]+)(?P<rest>/.+)")
_INTEGERS: Final = ("historyLength", "pageSize")
_FLAGS: Final = {"true": True, "false": False}


def match(verb: str, path: str, version: str) -> RouteMatch | None:
    """Return the operation of a request, None if there is none; a tenant may precede its path."""
    path = path.rstrip("/")
    found = _match(verb, path, version)
    if found is None and version == V10 and (prefixed := _TENANT.fullmatch(path)):
        found = _match(verb, prefixed["rest"], version)
        if found is not None:
            found.params["tenant"] = prefixed["tenant"]
    return found


def _match(verb: str, path: str, version: str) -> RouteMatch | None:
    for rule in _RULES[version]:
        if rule.verb == verb and (found := rule.pattern.fullmatch(path)):
            return RouteMatch(rule.operation, found.groupdict(), version)
    return None


def parse_params(found: RouteMatch, query: Mapping[str, str], body: Any) -> dict[str, Any]:
    """Return the parameters of an operation in the shape of 1.0: of the path, query and body.

    Raises:
        InvalidParamsError: one of them cannot be used.
    """
    if body is not None and not isinstance(body, dict):
        raise InvalidParamsError("The body must be an object.")
    if isinstance(body, HalfCharacters):
        raise body.refusal()
    named = {json_name(name): text for name, text in query.items()}
    params = {name: _typed(name, text) for name, text in named.items()}
    if found.version == V10:
        return {**params, **with_json_names(body or {}), **found.params}
    params |= {**(body or {}), **found.params}
    convert = PARAMS_FROM_V03_REST.get(found.operation)
    if convert is None:
        return params
    try:
        converted: dict[str, Any] = _dialects.convert_checked(convert, params)
    except ValueError as error:
        raise InvalidParamsError(f"The body is wrong: {error}.") from None
    return converted


def _typed(name: str, text: str) -> Any:
    """Return the value of a parameter in the query, in which everything is text."""
    if name in _INTEGERS:
        try:
            return int(text)
        except ValueError:
            raise wrong(name, "must be a whole number") from None
    if name == "includeArtifacts":
        if text not in _FLAGS:
            raise wrong(name, "must be true or false")
        return _FLAGS[text]
    return text


def result(version: str, kind: str, value: Any) -> bytes:
    """Return the body for a result, which has the shape of 1.0."""
    convert = RESULTS_TO_V03_REST.get(kind) if version == V03 else None
    # It is None if the client has left.
    return to_json(value if convert is None or value is None else convert(value))


def failure(version: str, error: A2AJSONRPCError) -> tuple[int, bytes]:
    """Return the status and the body for an error."""
    if version == V03:
        body = {"type": type(error).__name__, "message": error.message}
        return status_of(error).http, to_json(body)
    status, document = rest_error(error)
    return status, to_json(document)
