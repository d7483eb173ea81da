"""The proxy that the environment variables define for a URL, by the rules of httpx2 2.16.2.

A message about a failed connection includes the proxy, because the proxy may be unreachable.
"""

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

from ._checks import shown
from ._types import DEFAULT_PORTS

_ENTRY = re.compile(r"(?:(?P<scheme>[a-z]+)://)?(?P<host>\[[^]]*\]|[^:]*)(?::(?P<port>[0-9]+))?")


def proxy_for(url: str) -> str | None:
    """Return the proxy that our clients use for a URL, without its user and password.

    None if they connect directly, or if the URL is not valid.
    """
    try:
        parts = urlsplit(url)
        proxies = getproxies()
        proxy = proxies.get(parts.scheme) or proxies.get("all")
        if not proxy or not parts.hostname or _bypasses_proxy(parts, proxies.get("no", "")):
            return None
        return shown(proxy if "://" in proxy else f"http://{proxy}")
    except ValueError:
        return None


def _bypasses_proxy(url: SplitResult, no_proxy: str) -> bool:
    """Return True if an entry of `NO_PROXY` matches the URL."""
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(entry == "*" or _matches(entry, url) for entry in entries if entry)


def _matches(entry: str, url: SplitResult) -> bool:
    network = _network(entry.rpartition("://")[2])
    if network is None:
        return _matches_name(entry, url)
    try:
        return ip_address(url.hostname or "") in network
    except ValueError:
        return False


def _network(entry: str) -> IPv4Network | IPv6Network | None:
    """Return an IP address or range as a network; None for a host name."""
    try:
        return ip_network(entry.replace("[", "").replace("]", ""), strict=False)
    except ValueError:
        return None


def _matches_name(entry: str, url: SplitResult) -> bool:
    found = _ENTRY.fullmatch(entry)
    if found is None or found["scheme"] not in (None, "all", url.scheme):
        return False
    port = None if url.port == DEFAULT_PORTS.get(url.scheme) else url.port
    if found["port"] is not None and int(found["port"]) != port:
        return False
    return _matches_host(found["host"].strip("[]"), url.hostname or "", found["scheme"])


def _matches_host(host: str, name: str, scheme: str | None) -> bool:
    if host.startswith("*."):
        return name.endswith(host[1:])
    if scheme is None and host != "localhost":  # `example.com` also matches its subdomains
        return name == host or name.endswith(host if host.startswith(".") else f".{host}")
    return host in ("", name)
