"""The page of an agent in a browser: static files, their headers, and the routes."""

from ._cut_request import CutRequest
from ._routes import CONFIG_PATH, CUT_PATH, PageConfig, page_routes

__all__ = ["CONFIG_PATH", "CUT_PATH", "CutRequest", "PageConfig", "page_routes"]
