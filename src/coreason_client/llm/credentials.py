"""Keys of providers: text, AWS credentials, or a callable for one; and the headers with them."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from .._http._checks import check_key, merged_headers
from ..errors import ArgumentError
from ._profile import ProviderProfile
from .errors import LLMRequestError

__all__ = ["AWSCredentials", "Key", "KeyLike", "KeyProvider", "check_key_like", "check_region"]

_REGION = re.compile(r"[a-z0-9-]{1,30}", re.ASCII)


@dataclass(frozen=True, slots=True)
class AWSCredentials:
    """Keys of AWS, with which requests to Bedrock are signed.

    Args:
        access_key: the access key id.
        secret_key: the secret access key.
        session_token: the token of temporary keys.
        region: such as "eu-central-1"; needed if the base URL does not show it.

    Raises:
        ArgumentError: a value cannot be sent; the message does not contain it.
    """

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None

    def __post_init__(self) -> None:
        check_key(self.access_key, "access_key")
        check_key(self.secret_key, "secret_key")
        if self.session_token is not None:
            check_key(self.session_token, "session_token")
        if self.region is not None:
            check_region(self.region)


Key: TypeAlias = str | AWSCredentials
"""A key, a token, or AWS credentials."""

KeyProvider: TypeAlias = Callable[[], Key] | Callable[[], Awaitable[Key]]
"""A callable, sync or async, that returns the current key."""

KeyLike: TypeAlias = Key | KeyProvider
"""A key, or a callable that returns it."""


def check_region(region: Any, argument: str = "region") -> str:
    """Return the name of an AWS region.

    Raises:
        ArgumentError: it is not one.
    """
    if not isinstance(region, str) or not _REGION.fullmatch(region):
        raise ArgumentError(argument, "must be an AWS region such as us-east-1", region)
    return region


def check_key_like(key: Any, argument: str = "api_key") -> KeyLike:
    """Return a key that can be sent, or a callable, whose keys are checked when it is called.

    Raises:
        ArgumentError: it is neither; the message does not contain it.
    """
    return key if isinstance(key, AWSCredentials) or callable(key) else check_key(key, argument)


# Headers that authenticate one request.
#
# * A key goes into the header of its provider. At Azure a callable returns tokens of Entra ID,
#   which go into `Authorization`; a key that is text goes into `api-key`.
# * With AWS credentials each request is signed: method, URL, body and time (`_sigv4.py`). A header
#   `Authorization` of the caller replaces the signature.

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


def check_key_of(profile: ProviderProfile, key: Any, name: str) -> Key:
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


def key_headers(profile: ProviderProfile, key: Key | None, *, fetched: bool) -> Mapping[str, str]:
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
    headers: Mapping[str, str], key: AWSCredentials, method: str, url: str, body: bytes, now: float
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
