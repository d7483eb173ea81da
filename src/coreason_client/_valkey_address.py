"""Shared by all users of a Valkey store: its address, without its credentials, and scripts."""

from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from ._host_port import host_port
from ._secret import redact
from .errors import ArgumentError

_SCHEMES = {"redis": False, "valkey": False, "rediss": True, "valkeys": True}
_SENTINEL = "+sentinel"
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_TLS_OPTIONS = frozenset({"ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile"})


class Script:
    """A script and its SHA-1, by which the store knows it after it has run once."""

    __slots__ = ("sha", "source")

    def __init__(self, source: str) -> None:
        self.source = source.strip()
        self.sha = sha1(self.source.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a store; `shown` is the address without credentials."""

    host: str
    port: int
    db: int
    tls: bool
    shown: str
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls_options: dict[str, Any] = field(default_factory=dict, repr=False)
    sentinels: tuple[tuple[str, int], ...] = ()
    service: str = ""
    sentinel_username: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)

    def redact(self, text: str) -> str:
        """Return a text without the credentials; some servers repeat them in errors."""
        secrets = (self.password, self.username, self.sentinel_password, self.sentinel_username)
        return redact(text, secrets)

    def connection_options(self, timeout: float) -> dict[str, Any]:
        """Return what each connection of the library gets, beside its host and its port."""
        return {
            "username": self.username,
            "password": self.password,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "protocol": 2,
            **self.tls_options,
        }


def parse_address(url: str, *, with_sentinel: bool = False) -> Address:
    """Parse ``valkey://user:password@host:port/db``; the scheme may be redis, with an s for TLS.

    With Sentinel it is ``valkey+sentinel://user:password@host:port,host:port/name/db``; the hosts
    are those of Sentinel, and its own credentials are the options `sentinel_username` and
    `sentinel_password`.

    Raises:
        ArgumentError: it is not valid. The error does not contain the URL, because of its password.
    """
    if with_sentinel and url.partition("://")[0].endswith(_SENTINEL):
        return _parse_sentinel_address(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ArgumentError("url", "must be a URL with a valid port") from None
    if parts.scheme not in _SCHEMES:
        raise ArgumentError("url", "must start with redis://, rediss://, valkey:// or valkeys://")
    if not parts.hostname:
        raise ArgumentError("url", f"must name a host, such as {parts.scheme}://host:6379")
    host = unquote(parts.hostname)
    port = 6379 if port is None else port
    tls = _SCHEMES[parts.scheme]
    db = _db(parts.path)
    return Address(
        host=host,
        port=port,
        db=db,
        tls=tls,
        shown=f"{parts.scheme}://{host_port(host, port)}/{db}",
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        tls_options=_tls_options(parts.query, tls=tls),
    )


def _parse_sentinel_address(url: str) -> Address:
    scheme, _, rest = url.partition(_SENTINEL + "://")
    if scheme not in _SCHEMES:
        raise ArgumentError("url", "must start with valkey+sentinel:// or valkeys+sentinel://")
    authority, _, path = rest.partition("/")
    path, _, query = path.partition("?")
    user, _, hosts = authority.rpartition("@")
    name, _, db = path.partition("/")
    if not name:
        raise ArgumentError("url", "must have the name of the primary at Sentinel as its path")
    credentials = urlsplit(f"//{user}@host")
    options = dict(parse_qsl(query, keep_blank_values=True))
    own = {key: options.pop(key, None) or None for key in _SENTINEL_OPTIONS}
    tls = _SCHEMES[scheme]
    return Address(
        host="",
        port=0,
        db=_db(db),
        tls=tls,
        shown=f"{scheme}{_SENTINEL}://{hosts}/{name}/{_db(db)}",
        username=unquote(credentials.username) if credentials.username else None,
        password=unquote(credentials.password) if credentials.password else None,
        tls_options=_tls_options(urlencode(options), tls=tls),
        sentinels=tuple(_sentinel(host) for host in hosts.split(",")),
        service=unquote(name),
        sentinel_username=own["sentinel_username"],
        sentinel_password=own["sentinel_password"],
    )


def _sentinel(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise ArgumentError("url", "must name the hosts of Sentinel, such as host:26379", text)
    return host, 26379 if port is None else port


def _db(path: str) -> int:
    text = path.strip("/")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ArgumentError("url", "must have a database number as its path, such as /0")
    return int(text)


def _tls_options(query: str, *, tls: bool) -> dict[str, Any]:
    options: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(options.keys() - _TLS_OPTIONS)
    if unknown:
        raise ArgumentError(
            "url",
            f"may have only the options {', '.join(sorted(_TLS_OPTIONS))}; got {unknown[0]!r}",
        )
    if options and not tls:
        raise ArgumentError("url", "must start with valkeys:// or rediss:// to have TLS options")
    requirement = options.get("ssl_cert_reqs", "required")
    if requirement not in ("none", "optional", "required"):
        raise ArgumentError(
            "ssl_cert_reqs in url", "must be none, optional or required", requirement
        )
    if requirement == "none":  # without verification the host name proves nothing
        options["ssl_check_hostname"] = False
    return options
