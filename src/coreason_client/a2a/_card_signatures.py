"""Verification of the signatures of a card (JWS, RFC 7515) with keys that the caller trusts.

* One valid signature is enough. Only its protected header counts; a `jku` in it is never fetched,
  because whoever forges a card can also name an address with keys.
* A key with an id is used for signatures with that `kid`; a key without an id for all. A signature
  without a `kid` is tried with all keys.
* A header with `crit` is refused: this client supports no such extension.
* Signed cards have several forms (`_card_form`). The result has only what the signature protects.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._card import CardKeys, read_card
from ._card_form import SignedForm, signed_forms
from ._jcs import canonical_json
from ._wire import parse_json
from .errors import A2ACardSignatureError
from .types import AgentCard

if TYPE_CHECKING:
    from ._card_keys import CardKey

__all__ = ["trusted_keys", "verify_card"]

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
