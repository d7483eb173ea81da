"""AWS Signature Version 4: the headers that sign one request. Pure; the time is an argument.

The rules (Signature Version 4, "Create a signed AWS API request"):

* A signature covers the method, the path, the query, some headers and the body.
* The canonical path is the path as sent, with every segment encoded once more, because the path of
  every service but S3 is encoded twice: a model id `a:b` is sent as `a%3Ab`, signed as `a%253Ab`.
* The key of a signature is derived from the secret key, the date, the region and the service.
"""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import parse_qsl, quote, urlsplit

from .._http._types import DEFAULT_PORTS

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"  # besides letters and digits


@dataclass(frozen=True, slots=True)
class Scope:
    """The keys, the region and the service that requests are signed for."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(repr=False)
    region: str
    service: str


def signed_headers(
    scope: Scope, method: str, url: str, headers: Mapping[str, str], body: bytes, now: float
) -> dict[str, str]:
    """Return the headers to add to a request; `now` is in seconds since 1970.

    Of `headers`, the content type, the host and those of AWS are signed: proxies may change others.
    """
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    added = {"X-Amz-Date": moment}
    if scope.session_token is not None:
        added["X-Amz-Security-Token"] = scope.session_token
    signed = _signed(url, {**headers, **added})
    names = ";".join(signed)
    lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
    path, query = _canonical_path(url), _canonical_query(url)
    request = "\n".join((method, path, query, lines, names, sha256(body).hexdigest()))
    credential_scope = f"{moment[:8]}/{scope.region}/{scope.service}/aws4_request"
    digest = sha256(request.encode()).hexdigest()
    to_sign = "\n".join((_ALGORITHM, moment, credential_scope, digest))
    signature = _hmac(_signing_key(scope, moment[:8]), to_sign).hex()
    added["Authorization"] = (
        f"{_ALGORITHM} Credential={scope.access_key}/{credential_scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return added


def _signed(url: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to sign, by lower-case name, sorted."""
    known = {"host": _host(url)}
    for name, value in headers.items():
        lower = name.lower()
        if lower in ("content-type", "host") or lower.startswith("x-amz-"):
            known[lower] = " ".join(value.split())
    return dict(sorted(known.items()))


def _host(url: str) -> str:
    """Return the Host header that HTTP libraries send for a URL."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return host.removesuffix(f":{DEFAULT_PORTS.get(parts.scheme)}").lower()


def _canonical_path(url: str) -> str:
    kept: list[str] = []
    path = urlsplit(url).path
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(quote(segment, safe=_UNRESERVED))
    end = "/" if kept and path.endswith("/") else ""
    return f"/{'/'.join(kept)}{end}"


def _canonical_query(url: str) -> str:
    pairs = parse_qsl(urlsplit(url).query.replace("+", "%2B"), keep_blank_values=True)
    return "&".join(f"{name}={value}" for name, value in sorted(_encoded(pairs)))


def _encoded(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return (
        (quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED)) for name, value in pairs
    )


def _signing_key(scope: Scope, date: str) -> bytes:
    key = f"AWS4{scope.secret_key}".encode()
    for part in (date, scope.region, scope.service, "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
