"""Public keys in their formats, and keys that are refused."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from jwt.algorithms import ECAlgorithm

from coreason_client import ArgumentError
from coreason_client.a2a._card_keys import read_keys
from tests.a2a.card_signing import EC, EC_384, ED, RSA, jwk, pem, private_pem

RSA_ALGORITHMS = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
ENCRYPTION = jwk(RSA, "enc", use="enc")
SHARED = {"kty": "oct", "k": "c2hhcmVkLXNlY3JldC1vZi0zMi1ieXRlcy1vci1tb3Jl", "kid": "shared"}

GOOD: dict[str, tuple[Any, list[tuple[str | None, set[str]]]]] = {
    "JWK": (jwk(EC), [("key-1", {"ES256"})]),
    "JWK text": (json.dumps(jwk(EC)), [("key-1", {"ES256"})]),
    "JWK bytes": (json.dumps(jwk(EC)).encode(), [("key-1", {"ES256"})]),
    "no id": (jwk(EC, None), [(None, {"ES256"})]),
    "P-384": (jwk(EC_384), [("key-1", {"ES384"})]),
    "Ed25519": (jwk(ED), [("key-1", {"EdDSA"})]),
    "RSA": (jwk(RSA), [("key-1", RSA_ALGORITHMS)]),
    "RSA for one algorithm": (jwk(RSA, alg="PS256"), [("key-1", {"PS256"})]),
    "for signatures": (jwk(EC, use="sig", key_ops=["verify"]), [("key-1", {"ES256"})]),
    "another algorithm than its type": (jwk(RSA, alg="HS256"), [("key-1", set())]),
    "PEM": (pem(EC), [(None, {"ES256"})]),
    "PEM bytes": (pem(RSA).encode(), [(None, RSA_ALGORITHMS)]),
    "PEM Ed25519": (pem(ED), [(None, {"EdDSA"})]),
    "a set": (
        {"keys": [jwk(EC, "a"), jwk(ED, "b")]},
        [("a", {"ES256"}), ("b", {"EdDSA"})],
    ),
    "a set with keys for other purposes": (
        {"keys": [ENCRYPTION, SHARED, {"kty": "new"}, 7, jwk(EC, "a")]},
        [("a", {"ES256"})],
    ),
    "a list": ([pem(EC), {"keys": [jwk(ED)]}], [(None, {"ES256"}), ("key-1", {"EdDSA"})]),
}


@pytest.mark.parametrize("name", GOOD)
def test_formats(name: str) -> None:
    keys, expected = GOOD[name]
    assert [(key.kid, set(key.algorithms)) for key in read_keys(keys)] == expected


SMALL = rsa.generate_private_key(65537, 1024)
PRIVATE_JWK = json.loads(ECAlgorithm.to_jwk(EC))
WRONG: dict[str, tuple[Any, str]] = {
    "nothing": ([], "must have a public key"),
    "an empty set": ({"keys": []}, "must have a public key"),
    "a set without a usable key": ({"keys": [SHARED, ENCRYPTION]}, "must have a public key"),
    "a set that is none": ({"keys": 7}, "must have a public key"),
    "a number": (7, "must be a JWK"),
    "a list of numbers": ([7], "must be a JWK"),
    "text": ("a-secret", "JSON or PEM"),
    "a JSON list": ("[]", "must be a JWK"),
    "a shared secret": (SHARED, "unsupported type"),
    "a private JWK": (PRIVATE_JWK, "got a private one"),
    "a private PEM": (private_pem(EC), "got a private one"),
    "wrong PEM": ("-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----", "not a public key"),
    "no kty": ({"kid": "a"}, "without a kty"),
    "an unknown curve": (jwk(EC) | {"crv": "secp256k1"}, "unsupported type"),
    "a point that is not on the curve": (jwk(EC) | {"x": jwk(EC)["y"]}, "not valid"),
    "no modulus": ({"kty": "RSA", "e": "AQAB"}, "not valid"),
    "for encryption": (ENCRYPTION, "not for signatures"),
    "for signing only": (jwk(EC, key_ops=["sign"]), "not for signatures"),
    "a small RSA key": (jwk(SMALL), "fewer than 2048 bits"),
    "a small RSA key in PEM": (pem(SMALL), "fewer than 2048 bits"),
    "an unsupported curve in PEM": (pem(ec.generate_private_key(ec.SECP256K1())), "unsupported"),
    "an unsupported type in PEM": (pem(ed448.Ed448PrivateKey.generate()), "unsupported"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_keys(name: str) -> None:
    keys, words = WRONG[name]
    with pytest.raises(ArgumentError, match=words) as caught:
        read_keys(keys)
    assert caught.value.argument == "card_keys"
    for secret in ("a-secret", SHARED["k"], PRIVATE_JWK["d"]):
        assert secret not in str(caught.value)


def test_the_repr_of_a_key_is_short() -> None:
    [key] = read_keys(jwk(EC))
    assert repr(key) == "CardKey(algorithms=frozenset({'ES256'}), kid='key-1')"
