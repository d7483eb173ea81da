"""The OpenAI-compatible API for several agents at one address: each is a model.

A request goes to the handlers of one agent, which check it again as if it had come to them alone.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from pydantic_core import SchemaValidator, ValidationError
from pydantic_core import core_schema as schema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..engine._runtime import Runtime
from ..errors import UnknownStream
from ..http._body import drain_body
from ..http._gate import Gate, drop_body
from ..http._problems import Problem
from ._request import check_model, unknown_model
from ._routes import OpenAIRoutes, describe, route_table
from ._stored import stream_of

__all__ = ["ServedModel", "SharedRoutes"]

_UNREADABLE = object()
_BODY = SchemaValidator(
    schema.typed_dict_schema(
        {
            "model": schema.typed_dict_field(
                schema.with_default_schema(schema.any_schema(), default=None)
            )
        }
    )
)


class ServedModel(NamedTuple):
    """An agent as a model; `runtime` returns its runtime on this event loop."""

    name: str
    gate: Gate
    runtime: Callable[[], Awaitable[Runtime]]
    routes: OpenAIRoutes


class SharedRoutes:
    """The handlers; the models are at least one. The limits of the first one apply to bodies."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self._models = {model.name: model for model in models}
        self._first = models[0]

    def table(self) -> list[Route]:
        """Return the routes."""
        return route_table(self)

    # Models.

    async def models(self, request: Request) -> Response:
        """List the agents that the key of the request may use."""
        names = (model.name for model, _ in self._allowed(request))
        return JSONResponse({"object": "list", "data": [describe(name) for name in names]})

    async def model(self, request: Request) -> Response:
        """Describe an agent."""
        names = [model.name for model, _ in self._allowed(request)]
        name = request.path_params["model"]
        if name not in names:
            raise unknown_model(*names)
        return JSONResponse(describe(name))

    def _allowed(self, request: Request) -> list[tuple[ServedModel, str]]:
        """Return the models that a request may use, each with its principal.

        Raises:
            Problem: 401, no agent knows the key.
        """
        found: list[tuple[ServedModel, str]] = []
        refused: Problem | None = None
        for model in self._models.values():
            try:
                found.append((model, model.gate.principal_in(request.headers)))
            except Problem as problem:
                refused = refused or problem
        if refused is not None and not found:
            raise refused
        return found

    # Answers: the body names the model.

    async def chat(self, request: Request) -> Response:
        """Answer a chat."""
        return await self._answer(request, OpenAIRoutes.chat)

    async def create(self, request: Request) -> Response:
        """Create a response."""
        return await self._answer(request, OpenAIRoutes.create)

    async def _answer(
        self, request: Request, handler: Callable[[OpenAIRoutes, Request], Awaitable[Response]]
    ) -> Response:
        try:
            return await handler((await self._named(request)).routes, request)
        finally:
            drop_body(request)

    async def _named(self, request: Request) -> ServedModel:
        """Return the model that the body names.

        Raises:
            Problem: 401, 404, or as `Gate.read_ahead`.
        """
        gate = self._first.gate
        try:
            allowed = self._allowed(request)
            await gate.turn()
            given = await gate.read_ahead(request, allowed[0][1], _model_in)
        except Problem as problem:
            if problem.status != 408:  # 408: the body did not arrive
                await drain_body(request)
            raise
        if given is _UNREADABLE:
            return self._first  # which refuses the body
        return self._models[check_model(given, *(model.name for model, _ in allowed))]

    # Stored responses: the id is that of a stream, which has an owner.

    async def response(self, request: Request) -> Response:
        """Return a response, as it stands or as a stream, or delete it."""
        return await (await self._owner(request)).response(request)

    async def cancel(self, request: Request) -> Response:
        """Cancel a response."""
        return await (await self._owner(request)).cancel(request)

    async def input_items(self, request: Request) -> Response:
        """Return the input of a response."""
        return await (await self._owner(request)).input_items(request)

    async def _owner(self, request: Request) -> OpenAIRoutes:
        """Return the handlers of the agent to which a response belongs.

        For an unknown id these are any handlers that know the key: they refuse it. An id of another
        principal is refused in the same way.
        """
        allowed = self._allowed(request)
        any_model = allowed[0][0]
        stream_id = stream_of(request.path_params["response_id"])
        if stream_id is None:
            return any_model.routes
        runtime = await any_model.runtime()
        try:
            owner = (await runtime.log.meta(stream_id)).principal
        except UnknownStream:
            return any_model.routes
        found = (model for model, principal in allowed if principal == owner)
        return next(found, any_model).routes


def _model_in(body: bytes) -> Any:
    """Return the model that a body names, without making objects of the rest."""
    try:
        return _BODY.validate_json(body)["model"]
    except ValidationError:
        return _UNREADABLE
