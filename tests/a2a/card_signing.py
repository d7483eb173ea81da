"""Keys and signers for the tests of card signatures; nothing here uses the code under test."""

import base64
import json
from typing import Any

from a2a.utils._jcs import canonicalize
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

EC = ec.generate_private_key(ec.SECP256R1())
EC_384 = ec.generate_private_key(ec.SECP384R1())
RSA = rsa.generate_private_key(65537, 2048)
ED = ed25519.Ed25519PrivateKey.generate()
OTHER = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any) -> str:
    """Return the PEM text of the public key that belongs to a private one."""
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    text: bytes = key.public_key().public_bytes(encoding, form)
    return text.decode()


def private_pem(key: Any) -> str:
    """Return the PEM text of a private key."""
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    text: bytes = key.private_bytes(encoding, form, serialization.NoEncryption())
    return text.decode()


def jwk(key: Any, kid: str | None = "key-1", **members: Any) -> dict[str, Any]:
    """Return the JWK of the public key that belongs to a private one."""
    algorithm: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    algorithm = OKPAlgorithm if isinstance(key, ed25519.Ed25519PrivateKey) else algorithm
    found: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
    found.pop("key_ops", None)
    return found | ({} if kid is None else {"kid": kid}) | members


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _signature(key: Any, alg: str, data: bytes) -> bytes:
    result: bytes
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(data)
    if isinstance(key, rsa.RSAPrivateKey):
        digest = hashes.SHA256()
        if alg.startswith("PS"):
            result = key.sign(data, padding.PSS(padding.MGF1(digest), 32), digest)
        else:
            result = key.sign(data, padding.PKCS1v15(), digest)
        return result
    size = key.curve.key_size // 8
    digest_of_size: Any = {32: hashes.SHA256(), 48: hashes.SHA384()}[size]
    r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(digest_of_size)))
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def sign(payload: Any, key: Any, alg: str = "ES256", **header: Any) -> dict[str, Any]:
    """Return the signature of a JSON value, with this protected header."""
    header = {"alg": alg, "kid": "key-1", "typ": "JOSE"} | header
    header = {name: value for name, value in header.items() if value is not None}
    protected = encoded(json.dumps(header).encode())
    data = f"{protected}.{encoded(canonicalize(payload).encode())}".encode()
    return {"protected": protected, "signature": encoded(_signature(key, alg, data))}


def signed(card: dict[str, Any], key: Any = EC, alg: str = "ES256", **header: Any) -> Any:
    """Return a card with a signature over all its other members."""
    return {**card, "signatures": [sign(card, key, alg, **header)]}
