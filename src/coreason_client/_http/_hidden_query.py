"""Keeps the query of a URL out of the log lines of the HTTP library.

It logs the URL of every request at level INFO, and a query may contain a key. So the request that
it sees has no query; the `target` of its extensions is what is sent. Only clients that we create do
this: the transport of a caller's client may not know `target`.
"""

from typing import Any

__all__ = ["hide_query", "hide_query_async"]


def hide_query(request: Any) -> None:
    """Move the query of a request of `httpx2` out of its URL; an event hook."""
    url = request.url
    if url.query or "target" in request.extensions:  # that of a redirect is copied
        request.extensions = {**request.extensions, "target": url.raw_path}
        request.url = url.copy_with(query=None)


async def hide_query_async(request: Any) -> None:
    """Do the same in an async client."""
    hide_query(request)
