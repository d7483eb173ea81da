"""The routes of the page, for every application that serves it.

All URLs inside the page are relative, so it works below a mount. The files need no key: they are
public, and contain nothing about the agent. What the page sends to the agent does.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ..errors import LogError
from ..http._body import read_within
from ..http._cursor import etag_of, is_known
from ..http._problems import Problem, as_problem, validation_problem

# The body of a request to cut the connections of a stream. Pure.

MAX_CUT_BYTES: Final = 1024
_MAX_SEED: Final = 2**53 - 1  # larger numbers change in JavaScript


class CutRequest(BaseModel):
    """The stream to cut now, and again after numbers of packets that follow from a seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stream_id: UUID
    seed: int | None = Field(default=None, strict=True, ge=0, le=_MAX_SEED)


def parse_cut(body: bytes) -> CutRequest:
    """Parse the body.

    Raises:
        Problem: 422, naming the fields.
    """
    try:
        return CutRequest.model_validate_json(body)
    except ValidationError as error:
        raise validation_problem(error) from None


# The static files of the page, read once from the installed package or a source checkout.

INDEX: Final = "index.html"
_CLIENT: Final = "coreason.js"
# Files of other types are not served.
_MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_CHECKOUT = Path(__file__).parents[4]


@dataclass(frozen=True, slots=True)
class PageFile:
    """One static file."""

    body: bytes
    media_type: str
    etag: str


@cache
def load_files() -> Mapping[str, PageFile]:
    """Return the files by name."""
    return {name: _read(name, source) for name, source in _sources() if _suffix(name)}


def _sources() -> Iterator[tuple[str, Traversable]]:
    # An editable install has no copy of the JavaScript client; it is read from the checkout.
    client = _CHECKOUT / "js" / _CLIENT
    if client.is_file():
        yield _CLIENT, client
    for entry in (files(__package__) / "static").iterdir():
        yield entry.name, entry


def _read(name: str, source: Traversable) -> PageFile:
    body = source.read_bytes()
    return PageFile(body, _MEDIA_TYPES[_suffix(name)], etag_of(body))


def _suffix(name: str) -> str:
    """Return the suffix of a file that is served, "" for any other."""
    suffix = Path(name).suffix
    return suffix if suffix in _MEDIA_TYPES else ""


# The headers of every response of the page. Pure.
#
# The page shows what an agent has written, which nobody has checked. Its scripts only ever insert
# text, and these headers are the second line of defence: without inline scripts and requests to
# other origins, a piece of markup that slips through can neither run nor report anything.

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
    `curl_option` is how curl sends the key. `inbox` is True if the page can send messages to a
    running answer, and `documents` is True if the page has the documents that
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
    inbox: bool
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
