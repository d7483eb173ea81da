"""Verification of the signatures of a card (JWS, RFC 7515) with keys that the caller trusts.

* One valid signature is enough. Only its protected header counts; a `jku` in it is never fetched,
  because whoever forges a card can also name an address with keys.
* A key with an id is used for signatures with that `kid`; a key without an id for all. A signature
  without a `kid` is tried with all keys.
* A header with `crit` is refused: this client supports no such extension.
* Signed cards have several forms (`signed_forms`). The result has only what the signature protects.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ._card import CardKeys, read_card
from ._wire import parse_json
from .errors import A2ACardSignatureError
from .types import AgentCard

if TYPE_CHECKING:
    from ._card_keys import CardKey


@dataclass(frozen=True, slots=True)
class SignedForm:
    """A form of a card: `payload` is the JSON that is signed, `content` what it protects."""

    payload: Any
    content: dict[str, Any]


_MAX_SIGNATURES = 16  # bounds the work that a card can cause


def verify_card(card: AgentCard | Mapping[str, Any] | bytes, keys: CardKeys) -> AgentCard:
    """Return the signed content of a card; use the result, not the argument.

    `keys` are the public keys that you trust: a JWK, a JWK set, PEM, or a list of these.

    Raises:
        A2ACardSignatureError: no signature is valid for one of the keys, or there is none.
        A2AJSONError: it is not a card.
        ArgumentError: the keys are not valid.
        MissingExtraError: the extra `signatures` is not installed.
    """
    trusted = trusted_keys(keys)
    parsed = card if isinstance(card, AgentCard) else read_card(card)
    document = _document_of(card)
    signatures = document.get("signatures")
    signatures = signatures if isinstance(signatures, list) else []
    if not signatures:
        raise A2ACardSignatureError(f"the card of {parsed.name!r} is not signed", reason="unsigned")
    for form in _forms(document):
        for signature in signatures[:_MAX_SIGNATURES]:
            if _is_valid(signature, form[1], trusted):
                return _content(form[0], signatures, parsed)
    raise _no_valid_signature(parsed.name, signatures, trusted)


def trusted_keys(keys: CardKeys) -> "list[CardKey]":
    """Return the keys that a caller trusts.

    Raises:
        ArgumentError: they are not valid.
        MissingExtraError: the extra `signatures` is not installed.
    """
    from ._card_keys import read_keys  # only this needs the extra

    return read_keys(keys)


def _document_of(card: AgentCard | Mapping[str, Any] | bytes) -> Mapping[str, Any]:
    if isinstance(card, AgentCard):
        if card._document is not None:
            return card._document
        dumped: dict[str, Any] = card.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return dumped
    document: Mapping[str, Any] = parse_json(card) if isinstance(card, bytes) else card
    return document


def _forms(document: Mapping[str, Any]) -> Iterator[tuple[SignedForm, str]]:
    """Yield the signed forms of a card with their encoded payloads, without repetitions."""
    seen: set[bytes] = set()
    for form in signed_forms(document):
        try:
            payload = canonical_json(form.payload)
        except (ValueError, TypeError):
            continue  # it cannot have been signed
        if payload not in seen:
            seen.add(payload)
            yield form, _encoded(payload)


def _content(form: SignedForm, signatures: Any, original: AgentCard) -> AgentCard:
    card = read_card({**form.content, "signatures": signatures})
    card._fetched_from = original._fetched_from
    return card


def _is_valid(signature: Any, payload: str, keys: "list[CardKey]") -> bool:
    header = _protected_header(signature)
    if header is None or "crit" in header:
        return False
    token = f"{signature['protected']}.{payload}.{signature['signature']}"
    return any(key.has_signed(header.get("alg"), token) for key in _candidates(header, keys))


def _candidates(header: Mapping[str, Any], keys: "list[CardKey]") -> "list[CardKey]":
    kid = header.get("kid")
    return [key for key in keys if kid is None or key.kid is None or key.kid == kid]


def _protected_header(signature: Any) -> dict[str, Any] | None:
    """Return the protected header of a signature, None if it is not well-formed."""
    if not isinstance(signature, Mapping):
        return None
    protected, value = signature.get("protected"), signature.get("signature")
    if not isinstance(protected, str) or not isinstance(value, str):
        return None
    if "." in protected or "." in value:  # it would become a part of the payload
        return None
    try:
        header = json.loads(urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))
    except (ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) else None


def _no_valid_signature(
    name: str, signatures: list[Any], keys: "list[CardKey]"
) -> A2ACardSignatureError:
    headers = [_protected_header(signature) or {} for signature in signatures[:_MAX_SIGNATURES]]
    kids = tuple(dict.fromkeys(h["kid"] for h in headers if isinstance(h.get("kid"), str)))
    if kids and not any(_candidates(header, keys) for header in headers if header):
        trusted = sorted(key.kid for key in keys if key.kid is not None)
        return A2ACardSignatureError(
            f"the card of {name!r} is signed with the keys {list(kids)!r}, the trusted keys are"
            f" {trusted!r}",
            reason="unknown_key",
            key_ids=kids,
        )
    return A2ACardSignatureError(
        f"the card of {name!r} has no valid signature of a trusted key", key_ids=kids
    )


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


# The forms in which signers sign a card.
#
# A signature covers the canonical JSON of the card without its `signatures`. Signers do not agree
# on the members that this JSON has, so a card has up to three signed forms:
#
# 1. the document as it was received. 0.3 has no other rule, and signers without a proto file do it.
# 2. the specification of 1.0: the members of 1.0, without those that have their default value,
#    unless they are REQUIRED or `optional` in the proto file. Servers add the members of 0.3 after
#    signing.
# 3. the official SDKs: as 2, and without empty text, lists and objects at any depth. Such a
#    signature does not cover empty values, such as a security requirement without scopes.
#
# `content` is the part of the document that a signature over a form protects. Only that is used.


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a message of the proto file.

    `is_kept` means that it stays although it has its default value: it is REQUIRED or `optional`,
    or a message. `message` has the members of its value, or of the values in its list or map; None
    if they are not messages.
    """

    is_kept: bool = False
    message: "Fields | None" = None
    is_list: bool = False
    is_map: bool = False


Fields: TypeAlias = Mapping[str, Field]

PLAIN = Field()
KEPT = Field(is_kept=True)
TEXTS = Field(is_list=True)
KEPT_TEXTS = Field(is_kept=True, is_list=True)


def _message(message: Fields) -> Field:
    return Field(is_kept=True, message=message)


def _list(message: Fields, *, is_kept: bool = False) -> Field:
    return Field(is_kept, message, is_list=True)


def _map(message: Fields | None = None, *, is_kept: bool = False) -> Field:
    return Field(is_kept, message, is_map=True)


_SCHEME: Fields = {
    "apiKeySecurityScheme": _message({"description": PLAIN, "location": KEPT, "name": KEPT}),
    "httpAuthSecurityScheme": _message(
        {"description": PLAIN, "scheme": KEPT, "bearerFormat": PLAIN}
    ),
    "oauth2SecurityScheme": _message(
        {
            "description": PLAIN,
            "flows": _message(
                {
                    "authorizationCode": _message(
                        {
                            "authorizationUrl": KEPT,
                            "tokenUrl": KEPT,
                            "refreshUrl": PLAIN,
                            "scopes": _map(is_kept=True),
                            "pkceRequired": PLAIN,
                        }
                    ),
                    "clientCredentials": _message(
                        {"tokenUrl": KEPT, "refreshUrl": PLAIN, "scopes": _map(is_kept=True)}
                    ),
                    "implicit": _message(
                        {"authorizationUrl": PLAIN, "refreshUrl": PLAIN, "scopes": _map()}
                    ),
                    "password": _message(
                        {"tokenUrl": PLAIN, "refreshUrl": PLAIN, "scopes": _map()}
                    ),
                    "deviceCode": _message(
                        {
                            "deviceAuthorizationUrl": KEPT,
                            "tokenUrl": KEPT,
                            "refreshUrl": PLAIN,
                            "scopes": _map(is_kept=True),
                        }
                    ),
                }
            ),
            "oauth2MetadataUrl": PLAIN,
        }
    ),
    "openIdConnectSecurityScheme": _message({"description": PLAIN, "openIdConnectUrl": KEPT}),
    "mtlsSecurityScheme": _message({"description": PLAIN}),
}
_REQUIREMENTS = _list({"schemes": _map({"list": TEXTS})})
CARD: Fields = {
    "name": KEPT,
    "description": KEPT,
    "supportedInterfaces": _list(
        {"url": KEPT, "protocolBinding": KEPT, "tenant": PLAIN, "protocolVersion": KEPT},
        is_kept=True,
    ),
    "provider": _message({"url": KEPT, "organization": KEPT}),
    "version": KEPT,
    "documentationUrl": KEPT,
    "capabilities": _message(
        {
            "streaming": KEPT,
            "pushNotifications": KEPT,
            "extensions": _list(
                {"uri": PLAIN, "description": PLAIN, "required": PLAIN, "params": KEPT}
            ),
            "extendedAgentCard": KEPT,
        }
    ),
    "securitySchemes": _map(_SCHEME),
    "securityRequirements": _REQUIREMENTS,
    "defaultInputModes": KEPT_TEXTS,
    "defaultOutputModes": KEPT_TEXTS,
    "skills": _list(
        {
            "id": KEPT,
            "name": KEPT,
            "description": KEPT,
            "tags": KEPT_TEXTS,
            "examples": TEXTS,
            "inputModes": TEXTS,
            "outputModes": TEXTS,
            "securityRequirements": _REQUIREMENTS,
        },
        is_kept=True,
    ),
    "iconUrl": KEPT,
}
"""The members of a card in the proto file of 1.0, without `signatures`."""


def signed_forms(document: Mapping[str, Any]) -> Iterator[SignedForm]:
    """Yield the forms of a card, the most complete one first."""
    unsigned = {name: value for name, value in document.items() if name != "signatures"}
    yield SignedForm(unsigned, unsigned)
    known = _known_members(unsigned, CARD)
    yield SignedForm(known, known)
    yield SignedForm(_without_empty(known) or {}, known)


def _known_members(value: Any, fields: Fields) -> Any:
    """Return a message with the members of the proto file, without default values."""
    if not isinstance(value, dict):
        return value
    return {
        name: _known_values(value[name], field)
        for name, field in fields.items()
        if value.get(name) is not None and (field.is_kept or not _is_default(value[name]))
    }


def _known_values(value: Any, field: Field) -> Any:
    if field.message is None:
        return value
    if field.is_list:
        return [_known_members(item, field.message) for item in value]
    if field.is_map:
        return {name: _known_members(item, field.message) for name, item in value.items()}
    return _known_members(value, field.message)


def _is_default(value: Any) -> bool:
    return value in ("", 0, [], {})  # 0 equals False


def _without_empty(value: Any) -> Any:
    """Return a value without empty text, lists, objects and nulls; None if nothing is left."""
    if isinstance(value, dict):
        members = ((name, _without_empty(member)) for name, member in value.items())
        return {name: member for name, member in members if member is not None} or None
    if isinstance(value, list):
        items = (_without_empty(item) for item in value)
        return [item for item in items if item is not None] or None
    return None if value == "" else value


# Canonical JSON (RFC 8785, JCS).
#
# It is written here because it is shorter than what a further dependency (`rfc8785`, `jcs`) would
# need in pins and checks, and because cards come from strangers: the depth must be limited. The
# tests compare it with the examples of the RFC and with a second implementation.

MAX_DEPTH: Final = 128
_MAX_SAFE_INTEGER: Final = 2**53 - 1  # a larger integer is not exact in an IEEE double
_MAX_PLAIN_EXPONENT: Final = 21  # ECMAScript writes numbers from 1e21 with an exponent
_MIN_PLAIN_EXPONENT: Final = -6  # and numbers below 1e-6


def canonical_json(value: Any) -> bytes:
    """Return the canonical form of a JSON value, in UTF-8.

    Raises:
        ValueError: it has none: a number that is not exact, a lone surrogate, too much nesting.
        TypeError: it is not a JSON value.
    """
    return _text(value, 0).encode()


def _text(value: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise ValueError(f"the value is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        names = sorted(value, key=_utf_16)
        members = (f"{_quoted(name)}:{_text(value[name], depth + 1)}" for name in names)
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(_text(item, depth + 1) for item in value)}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        if abs(value) > _MAX_SAFE_INTEGER:
            raise ValueError("an integer has more than 53 bits")
        return str(value)
    if isinstance(value, float):
        return _number(value)
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")


def _utf_16(name: Any) -> bytes:
    """Return the sort key of a member: RFC 8785 sorts by UTF-16 code units."""
    if not isinstance(name, str):
        raise TypeError(f"a member name must be text, got {type(name).__name__}")
    return name.encode("utf-16-be")


def _quoted(text: str) -> str:
    # `json` escapes the same characters in the same form as RFC 8785 if it keeps non-ASCII text.
    return json.dumps(text, ensure_ascii=False)


def _number(value: float) -> str:
    """Return a number as ECMAScript writes it; `repr` has the same digits in another format."""
    if not isfinite(value):
        raise ValueError("a number is not finite")
    if value == 0:
        return "0"
    parts = Decimal(repr(abs(value))).normalize().as_tuple()
    digits = "".join(map(str, parts.digits))
    point = len(digits) + int(parts.exponent)  # the position of the decimal point in the digits
    sign = "-" if value < 0 else ""
    if len(digits) <= point <= _MAX_PLAIN_EXPONENT:
        return f"{sign}{digits.ljust(point, '0')}"
    if 0 < point <= _MAX_PLAIN_EXPONENT:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if _MIN_PLAIN_EXPONENT < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{sign}{mantissa}e{point - 1:+d}"
