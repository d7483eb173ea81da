"""The page of an agent in a browser: static files, their headers, and the routes."""

from ._routes import (
    BEARER_OPTION,
    CONFIG_PATH,
    CUT_PATH,
    KEY_MARK,
    CurlOption,
    CutRequest,
    PageConfig,
    page_routes,
)

__all__ = [
    "BEARER_OPTION",
    "CONFIG_PATH",
    "CUT_PATH",
    "KEY_MARK",
    "CurlOption",
    "CutRequest",
    "PageConfig",
    "page_routes",
]
