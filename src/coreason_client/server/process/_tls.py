"""The certificate of a server with TLS: what is wrong with its files, in one sentence."""

import os
import ssl
from pathlib import Path
from typing import TypeAlias

from ...errors import ArgumentError

TlsFile: TypeAlias = str | os.PathLike[str] | None

_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_KEY = b"PRIVATE KEY-----"
_ENCRYPTED = b"ENCRYPTED"


def check_tls(certfile: TlsFile, keyfile: TlsFile, password: str | None) -> None:
    """Check that a server can use the files; OpenSSL never asks for a password in the terminal.

    Without a `keyfile`, the `certfile` must have the key too.

    Raises:
        ArgumentError: a file cannot be read or used, or the password is missing or wrong.
    """
    if certfile is None:
        for name, value in (("ssl_keyfile", keyfile), ("ssl_keyfile_password", password)):
            if value is not None:
                raise ArgumentError(name, "needs ssl_certfile")
        return
    key_name, key_path = ("ssl_certfile", certfile) if keyfile is None else ("ssl_keyfile", keyfile)
    certificate, key = _read("ssl_certfile", certfile), _read(key_name, key_path)
    if _CERTIFICATE not in certificate:
        raise ArgumentError("ssl_certfile", f"{certfile}: the file has no certificate in PEM form")
    if _KEY not in key:
        raise ArgumentError(key_name, f"{key_path}: the file has no private key in PEM form")
    if _ENCRYPTED in key and not password:
        raise ArgumentError(
            "ssl_keyfile_password", f"is missing, and the key in {key_path} is encrypted"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certfile, keyfile, lambda: password or "")
    except ssl.SSLError as error:
        raise _refusal(error, key_name, key_path, encrypted=_ENCRYPTED in key) from None


def _refusal(
    error: ssl.SSLError, name: str, path: str | os.PathLike[str], *, encrypted: bool
) -> ArgumentError:
    if error.reason == "KEY_VALUES_MISMATCH":
        return ArgumentError(name, f"{path}: the key does not belong to the certificate")
    if encrypted:
        return ArgumentError("ssl_keyfile_password", f"does not decrypt the key in {path}")
    return ArgumentError(name, f"{path}: the certificate or the key is damaged")


def _read(argument: str, path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ArgumentError(argument, f"{path}: {reason}") from None
