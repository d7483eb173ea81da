"""Keys of providers: text, AWS credentials, or a callable that returns one of them."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .._http._checks import check_key
from ..errors import ArgumentError

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
