"""The headers of every response of the page. Pure.

The page shows what an agent has written, which nobody has checked. Its scripts only ever insert
text, and these headers are the second line of defence: without inline scripts and requests to other
origins, a piece of markup that slips through can neither run nor report anything.
"""

from collections.abc import Mapping
from typing import Final

__all__ = ["CONTENT_SECURITY_POLICY", "PAGE_HEADERS"]

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        # Pictures and media that an agent shows; the page loads them only after a click.
        "img-src 'self' https: data:",
        "media-src https:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Other sites can neither load the files nor keep a handle of a window with the page.
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
