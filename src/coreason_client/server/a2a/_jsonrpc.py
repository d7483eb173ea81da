"""JSON-RPC requests and responses of both versions of the protocol. No I/O."""

import json
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from pydantic_core import from_json, to_json

from coreason_client.a2a import _dialects
from coreason_client.a2a.errors import (
    A2AJSONRPCError,
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
    VersionNotSupportedError,
)
from coreason_client.server.a2a._v03._conversions import PARAMS_FROM_V03, RESULTS_TO_V03

from ._error_formats import jsonrpc_error
from ._protocol import V03, V10, with_json_names

RpcId = str | int | float | None
_OPERATIONS: Final = {
    version: {method: operation for operation, method in dialect.methods.items()}
    for version, dialect in ((V10, _dialects.V10), (V03, _dialects.V03))
}


@dataclass(frozen=True, slots=True)
class RpcCall:
    """A call of an operation, with parameters in the shape of 1.0."""

    id: RpcId
    operation: str
    params: dict[str, Any]
    version: str


def rpc_id(body: Any) -> RpcId:
    """Return the id of a request, None if it has none that can be repeated."""
    given = body.get("id") if isinstance(body, dict) else None
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return None
    usable = _is_unicode(given) if isinstance(given, str) else isfinite(given)
    return given if usable else None


class HalfCharacters(dict[str, Any]):
    """A JSON object with half of a surrogate pair in a text, which is not a character.

    It is valid JSON, so its id can be read, but it cannot be stored.
    """

    def refusal(self) -> InvalidParamsError:
        """Return the error for it."""
        return InvalidParamsError(
            r"A text has half of a surrogate pair, such as \ud83d without the second half."
        )


def parse_json(body: bytes) -> Any:
    """Return the JSON of a body; a number that is not finite, such as NaN, is not JSON.

    Raises:
        JSONParseError: it is not JSON.
    """
    try:
        return from_json(body, allow_inf_nan=False)
    except (ValueError, RecursionError):
        if (found := _half_characters(body)) is not None:
            return found
        raise JSONParseError("The body is not valid JSON.") from None


def _half_characters(body: bytes) -> HalfCharacters | None:
    """Return an object that cannot be parsed only because of half characters, or None."""
    try:
        found = json.loads(body, parse_constant=_refuse)
        is_unicode = _is_unicode(json.dumps(found, ensure_ascii=False))
    except (ValueError, RecursionError):
        return None
    return None if is_unicode or not isinstance(found, dict) else HalfCharacters(found)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_call(body: Any, version: str) -> RpcCall:
    """Return the call in a request.

    Raises:
        InvalidRequestError: it is not a request of JSON-RPC 2.0.
        MethodNotFoundError: there is no such method.
        VersionNotSupportedError: the method belongs to another version.
        InvalidParamsError: the parameters are not an object, or have half characters.
    """
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0":
        raise InvalidRequestError('The body must be an object with "jsonrpc": "2.0".')
    method = body.get("method")
    if not isinstance(method, str) or not method:
        raise InvalidRequestError("The request has no method.")
    if "id" in body and body["id"] is not None and rpc_id(body) is None:
        raise InvalidRequestError("The id of a request must be a string or a number.")
    if isinstance(body, HalfCharacters):
        raise body.refusal()
    operation = _operation(method, version)
    params = body.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise InvalidParamsError("params must be an object.")
    return RpcCall(rpc_id(body), operation, _params(operation, params, version), version)


def _operation(method: str, version: str) -> str:
    operation = _OPERATIONS[version].get(method)
    if operation is not None:
        return operation
    if version == V03 and method in _OPERATIONS[V10]:
        # Without the header, a request is one of 0.3.
        raise VersionNotSupportedError(
            "The method belongs to version 1.0: send the header A2A-Version: 1.0."
        )
    raise MethodNotFoundError("There is no such method.")


def _params(operation: str, params: dict[str, Any], version: str) -> dict[str, Any]:
    if version == V10:
        return with_json_names(params)
    convert = PARAMS_FROM_V03.get(operation)
    if convert is None:
        return params
    try:
        converted: dict[str, Any] = _dialects.convert_checked(convert, params)
    except ValueError as error:
        raise InvalidParamsError(f"params are wrong: {error}.") from None
    return converted


def result(call: RpcCall, kind: str, value: Any) -> bytes:
    """Return the response for a result, which has the shape of 1.0."""
    convert = RESULTS_TO_V03.get(kind) if call.version == V03 else None
    # It is None if the client has left.
    shown = value if convert is None or value is None else convert(value)
    return to_json({"jsonrpc": "2.0", "id": call.id, "result": shown})


def failure(id_: RpcId, error: A2AJSONRPCError) -> bytes:
    """Return the response for an error."""
    return to_json({"jsonrpc": "2.0", "id": id_, "error": jsonrpc_error(error)})
