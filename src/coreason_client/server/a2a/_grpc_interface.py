"""The gRPC interface on the card. No I/O."""

from typing import NamedTuple
from urllib.parse import urlsplit

from ._ports import Address

__all__ = ["GrpcInterface"]


class GrpcInterface(NamedTuple):
    """The address of the server, and the one that clients use if it is another one."""

    bound: Address
    url: str | None

    def url_for(self, http_url: str | None) -> str:
        """Return the address for the card, as `host:port`.

        A server that listens at all addresses has the host of `http_url`, the URL of the
        application over HTTP, under which clients have reached it.
        """
        if self.url is not None:
            return self.url
        host = urlsplit(http_url or "").hostname
        if self.bound.is_wildcard and host:
            return str(Address(host, self.bound.port))
        return str(self.bound)
