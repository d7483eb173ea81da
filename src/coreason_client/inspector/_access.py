"""Who may use an inspector. Pure.

* Host and Origin are checked for every request, the static files included: a page of another site
  must not even learn that an inspector runs here.
* Everything but the static files of the page needs the token of this launch. The page has it from
  the fragment of its URL, which browsers send to no server.
"""

from typing import Final

from starlette.types import Scope

from ..server.http._auth import Keys
from ..server.http._hosts import AllowedHosts
from ..server.http._problems import Problem
from ..server.page import CONFIG_PATH

__all__ = ["Access"]

_PAGE: Final = "/page/"


class Access:
    """The rules of one launch."""

    def __init__(self, token: str) -> None:
        self._hosts = AllowedHosts()
        self._token = Keys([token], argument="token")

    def refusal(self, scope: Scope) -> Problem | None:
        """Return the refusal of a request, None if it is allowed."""
        foreign = self._hosts.refusal(scope["headers"], scope.get("server"))
        if foreign is not None:
            return foreign
        if _is_static(scope["method"], scope["path"]):
            return None
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        authorization = given[0].decode("latin-1") if len(given) == 1 else None
        try:
            self._token.principal(authorization)
        except Problem as problem:
            return Problem(
                problem.status,
                problem.slug,
                "Open the URL that `coreason inspect` has printed: it has the token of this "
                "launch, which every request needs as `Authorization: Bearer <token>`.",
                headers=problem.headers,
            )
        return None


def _is_static(method: str, path: str) -> bool:
    if method not in ("GET", "HEAD"):
        return False
    return path == "/" or (path.startswith(_PAGE) and path != CONFIG_PATH)
