"""The text form of a host and a port, as in a URL. Pure."""


def bracketed(host: str) -> str:
    """Return a host as it stands in a URL: an IPv6 address has brackets."""
    return f"[{host}]" if ":" in host else host


def host_port(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"{bracketed(host)}:{port}"
