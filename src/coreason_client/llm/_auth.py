"""The headers that authenticate one request. Pure.

* A key goes into the header of its provider. At Azure a callable returns tokens of Entra ID, which
  go into `Authorization`; a key that is text goes into `api-key`.
* With AWS credentials each request is signed: method, URL, body and time (`_sigv4.py`). A header
  `Authorization` of the caller replaces the signature.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from .._http._checks import check_key, merged_headers
from ..errors import ArgumentError
from ._profile import Profile
from .credentials import AWSCredentials, Key
from .errors import LLMRequestError

__all__ = ["bedrock_url", "check_key_of", "key_headers", "key_secrets", "signed"]

_SERVICE = "bedrock"
# Also the hosts of private endpoints, which begin with the name of the endpoint.
_REGION_IN_HOST = re.compile(
    r"(?:^|\.)bedrock(?:-runtime)?(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$",
    re.ASCII,
)


def bedrock_url(region: str) -> str:
    """Return the base URL of Bedrock in a region."""
    country = ".cn" if region.startswith("cn-") else ""
    return f"https://bedrock-runtime.{region}.amazonaws.com{country}"


def check_key_of(profile: Profile, key: Any, name: str) -> Key:
    """Return a key that a provider accepts; `name` is that of the argument.

    Raises:
        LLMRequestError: it does not; the message does not contain the key.
    """
    if isinstance(key, AWSCredentials):
        if profile.signs:
            return key
        rule = f"must be text for {profile.name}: AWS credentials are only for Bedrock"
        error = ArgumentError(name, rule)
    else:
        try:
            return check_key(key, name)
        except ArgumentError as caught:
            error = caught
    raise LLMRequestError(str(error), provider=profile.name, argument_error=error)


def key_headers(profile: Profile, key: Key | None, *, fetched: bool) -> Mapping[str, str]:
    """Return the header with the key; `fetched` by a callable."""
    if not isinstance(key, str):
        return {}
    header = (profile.fetched_auth or profile.auth) if fetched else profile.auth
    return {"Authorization": f"Bearer {key}"} if header == "bearer" else {header: key}


def key_secrets(key: Key | None) -> Iterator[str]:
    """Yield the secrets in a key."""
    if isinstance(key, AWSCredentials):
        yield from filter(None, (key.secret_key, key.session_token))
    elif key is not None:
        yield key


def signed(
    headers: Mapping[str, str],
    key: AWSCredentials,
    method: str,
    url: str,
    body: bytes,
    now: float,
) -> Mapping[str, str]:
    """Return the headers of a request with its signature; `now` is in seconds since 1970.

    Raises:
        LLMRequestError: the region is not known.
    """
    from ._sigv4 import Scope, signed_headers  # most programs do not need it

    if any(name.lower() == "authorization" for name in headers):
        return headers
    scope = Scope(key.access_key, key.secret_key, key.session_token, _region(url, key), _SERVICE)
    return merged_headers(headers, signed_headers(scope, method, url, headers, body, now))


def _region(url: str, key: AWSCredentials) -> str:
    host = urlsplit(url).hostname or ""
    match = _REGION_IN_HOST.search(host)
    region = match[1] if match else key.region
    if region is None:
        raise LLMRequestError(
            f"the AWS region of {host} is not known: pass region to AWSCredentials, or set "
            "AWS_REGION"
        )
    return region
