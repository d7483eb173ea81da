"""The routes of the page, for every application that serves it.

All URLs inside the page are relative, so it works below a mount. The files need no key: they are
public, and contain nothing about the agent. What the page sends to the agent does.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ..errors import LogError
from ..http._body import read_within
from ..http._etag import is_known
from ..http._problems import Problem, as_problem
from ._cut_request import MAX_CUT_BYTES, CutRequest, parse_cut
from ._files import INDEX, PageFile, load_files
from ._headers import PAGE_HEADERS

__all__ = ["CONFIG_PATH", "CUT_PATH", "PageConfig", "page_routes"]

CONFIG_PATH: Final = "/page/config.json"
CUT_PATH: Final = "/page/cut"
_DOCUMENT_PATH: Final = "/page/docs/{name:path}"
_BODY_TIMEOUT: Final = 10.0


KEY_MARK: Final = "{key}"
"""Stands for the key in a `CurlOption`."""

CurlOption: TypeAlias = tuple[str, str]
"""An option of curl, and its value."""

BEARER_OPTION: Final[CurlOption] = ("-H", f"Authorization: Bearer {KEY_MARK}")


class PageConfig(TypedDict):
    """The facts about the agent that the page needs; `target` is its URL if it is elsewhere.

    `needs_key` is True if the page must ask for a key, and `adds_key` if the command adds it.
    `curl_option` is how curl sends the key. `documents` is True if the page has the documents that
    the agent cites.
    """

    agent_id: str
    version: str
    protocol: Literal["cap", "a2a"]
    target: str | None
    needs_key: bool
    adds_key: bool
    curl_option: CurlOption
    cut: bool
    documents: bool
    card: dict[str, Any] | None


Config: TypeAlias = Callable[[Request], PageConfig]
Cut: TypeAlias = Callable[[Request, CutRequest], Awaitable[None]]
"""Checks who sends a request, and cuts the connections that it names."""
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def page_routes(
    config: Config, cut: Cut | None = None, documents: Mapping[str, str] | None = None
) -> list[Route]:
    """Return the routes of the page; without `cut` connections cannot be cut.

    `documents` are the texts that the agent cites, by path.
    """
    files = load_files()

    async def index(request: Request) -> Response:
        return _file_response(request, files[INDEX])

    async def file(request: Request) -> Response:
        found = files.get(request.path_params["file"])
        if found is None:
            raise Problem(404, "not-found", "The page has no such file.")
        return _file_response(request, found)

    async def describe(request: Request) -> Response:
        return JSONResponse(config(request), headers={"Cache-Control": "no-store"})

    table = [
        Route("/", _page(index), methods=["GET"]),
        Route(CONFIG_PATH, _page(describe), methods=["GET"]),
    ]
    if cut is not None:
        table.append(Route(CUT_PATH, _page(_cut_handler(cut)), methods=["POST"]))
    if documents:
        table.append(Route(_DOCUMENT_PATH, _page(_document_handler(documents)), methods=["GET"]))
    # A path, so that every response below /page has the headers.
    return [*table, Route("/page/{file:path}", _page(file), methods=["GET"])]


def _document_handler(documents: Mapping[str, str]) -> Handler:
    async def handle(request: Request) -> Response:
        found = documents.get(request.path_params["name"])
        if found is None:
            raise Problem(404, "not-found", "There is no such document.")
        return PlainTextResponse(found)

    return handle


def _cut_handler(cut: Cut) -> Handler:
    async def handle(request: Request) -> Response:
        await cut(request, parse_cut(await read_within(request, MAX_CUT_BYTES, _BODY_TIMEOUT)))
        return Response(status_code=204)

    return handle


def _page(handler: Handler) -> Handler:
    """Return a handler that adds the headers of the page, to refusals too."""

    async def handle(request: Request) -> Response:
        try:
            response = await handler(request)
        except (Problem, LogError) as error:
            response = as_problem(error).response()
        response.headers.update(PAGE_HEADERS)
        return response

    return handle


def _file_response(request: Request, file: PageFile) -> Response:
    # A new version of the package must be seen at once, so browsers always ask.
    headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
    if is_known(file.etag, request.headers.get("if-none-match")):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers={**headers, "Content-Type": file.media_type})
