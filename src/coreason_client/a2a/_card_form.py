"""The forms in which signers sign a card. Pure.

A signature covers the canonical JSON of the card without its `signatures`. Signers do not agree on
the members that this JSON has, so a card has up to three signed forms:

1. the document as it was received. 0.3 has no other rule, and signers without a proto file do it.
2. the specification of 1.0: the members of 1.0, without those that have their default value, unless
   they are REQUIRED or `optional` in the proto file. Servers add the members of 0.3 after signing.
3. the official SDKs: as 2, and without empty text, lists and objects at any depth. Such a signature
   does not cover empty values, such as a security requirement without scopes.

`content` is the part of the document that a signature over a form protects. Only that is used.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["CARD", "Field", "Fields", "SignedForm", "signed_forms"]


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


@dataclass(frozen=True, slots=True)
class SignedForm:
    """A form of a card: `payload` is the JSON that is signed, `content` what it protects."""

    payload: Any
    content: dict[str, Any]


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
