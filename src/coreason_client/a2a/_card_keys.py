"""Public keys for the signatures of cards, from JWK, JWK sets and PEM.

Only asymmetric algorithms are supported: whoever can verify an HMAC can also sign. A key determines
its algorithms, so the header of a signature cannot choose another one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ArgumentError, MissingExtraError
from ._card import CardKeys

try:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from jwt import PyJWK, PyJWTError
    from jwt.api_jws import PyJWS
except ImportError:
    raise MissingExtraError("the verification of card signatures", "signatures") from None

_RSA_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_ALGORITHM_OF_TYPE = {"RSA": "RS256", "OKP": "EdDSA"}  # any that reads a key of this type
_ALGORITHM_OF_CURVE = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_MIN_RSA_BITS = 2048
_jws = PyJWS()
_PRIVATE = "must be a public key, got a private one"


@dataclass(frozen=True, slots=True)
class CardKey:
    """A public key; `kid` is its id, None if it has none."""

    key: Any = field(repr=False)
    algorithms: frozenset[str]
    kid: str | None = None

    def has_signed(self, algorithm: object, token: str) -> bool:
        """Return True if the signature of a token (JWS Compact Serialization) is valid."""
        if not isinstance(algorithm, str) or algorithm not in self.algorithms:
            return False
        try:
            _jws.decode_complete(token, self.key, algorithms=[algorithm])
        except (PyJWTError, ValueError, TypeError):
            return False
        return True


class _UnusableKeyError(ValueError):
    """A key that cannot verify signatures; in a set it is skipped (RFC 7517, section 5)."""


def read_keys(keys: CardKeys) -> list[CardKey]:
    """Return the keys.

    Raises:
        ArgumentError: one is not a public key, or there is none.
    """
    try:
        found = [key for entry in _entries(keys) for key in _keys_of(entry)]
    except _UnusableKeyError as error:
        raise ArgumentError("card_keys", str(error)) from None
    if not found:
        raise ArgumentError("card_keys", "must have a public key that can verify signatures")
    return found


def _entries(keys: Any) -> Sequence[Any]:
    if isinstance(keys, str | bytes | Mapping):
        return [keys]
    if isinstance(keys, Sequence):
        return keys
    raise _UnusableKeyError("must be a JWK, a JWK set, PEM, or a list of them")


def _keys_of(entry: Any) -> Iterator[CardKey]:
    if isinstance(entry, str | bytes):
        text = entry.encode() if isinstance(entry, str) else entry
        if b"-----BEGIN" in text:
            yield _from_pem(text)
            return
        entry = _parsed(text)
    if not isinstance(entry, Mapping):
        raise _UnusableKeyError("must be a JWK, a JWK set, PEM, or a list of them")
    if "keys" not in entry:
        yield _from_jwk(entry)
        return
    members = entry["keys"] if isinstance(entry["keys"], list) else []
    for member in members:
        try:
            yield _from_jwk(member)
        except _UnusableKeyError:
            continue


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _UnusableKeyError("must be JSON or PEM if it is text") from None


def _from_pem(text: bytes) -> CardKey:
    if b"PRIVATE KEY" in text:
        raise _UnusableKeyError(_PRIVATE)
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise _UnusableKeyError("has PEM text that is not a public key") from None
    return CardKey(key, _algorithms_of(key))


def _from_jwk(jwk: Any) -> CardKey:
    if not isinstance(jwk, Mapping) or not isinstance(jwk.get("kty"), str):
        raise _UnusableKeyError("has a JWK without a kty")
    if "d" in jwk:
        raise _UnusableKeyError(_PRIVATE)
    algorithm = _ALGORITHM_OF_TYPE.get(jwk["kty"])
    if jwk["kty"] == "EC":
        algorithm = _ALGORITHM_OF_CURVE.get(str(jwk.get("crv")))
    if algorithm is None:
        raise _UnusableKeyError("has a JWK of an unsupported type; use EC, RSA or OKP (Ed25519)")
    if jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ["verify"]):
        raise _UnusableKeyError("has a JWK that is not for signatures")
    try:
        key = PyJWK(dict(jwk), algorithm).key
    except (PyJWTError, ValueError, TypeError, KeyError):  # the text may contain the key
        raise _UnusableKeyError("has a JWK that is not valid") from None
    algorithms = _algorithms_of(key)
    if jwk.get("alg") is not None:
        algorithms &= {str(jwk["alg"])}
    kid = jwk.get("kid")
    return CardKey(key, algorithms, kid if isinstance(kid, str) else None)


def _algorithms_of(key: Any) -> frozenset[str]:
    """Return the algorithms that a public key can verify."""
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < _MIN_RSA_BITS:
            raise _UnusableKeyError(f"has an RSA key with fewer than {_MIN_RSA_BITS} bits")
        return _RSA_ALGORITHMS
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return frozenset({_CURVES[key.curve.name]})
    if isinstance(key, ed25519.Ed25519PublicKey):
        return frozenset({"EdDSA"})
    raise _UnusableKeyError("has a key of an unsupported type; use EC, RSA or Ed25519")
