"""The OpenAI-compatible API for several agents at one address: each is a model.

A request goes to the handlers of one agent, which check it again as if it had come to them alone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
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
from ..http._hosts import Handler, RouteEntry, route_table
from ..http._problems import PRINCIPAL, Problem
from ._request import check_model, unknown_model
from ._routes import OpenAIRoutes, describe
from ._stored import stream_of

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
    """The routes of at least one model; the limits of the first one apply to bodies."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self._models = {model.name: model for model in models}
        self._first = models[0]

    def table(self) -> list[Route]:
        """Return the routes: those of one agent, each with a handler that chooses the agent."""
        own = {"/v1/models": self.models, "/v1/models/{model:path}": self.model}
        table: list[RouteEntry] = []
        for same in zip(*(model.routes.table() for model in self._models.values()), strict=True):
            path, handlers = same[0].path, [route.endpoint for route in same]
            choose = self._owner if "{response_id}" in path else self._named
            by_name = dict(zip(self._models, handlers, strict=True))
            handler = own.get(path) or partial(self._forward, choose, by_name)
            table.append((same[0].methods or set(), path, handler))
        return route_table(table, with_slash=False)

    async def _forward(
        self,
        choose: Callable[[Request], Awaitable[ServedModel]],
        handlers: Mapping[str, Handler],
        request: Request,
    ) -> Response:
        try:
            return await handlers[(await choose(request)).name](request)
        finally:
            drop_body(request)

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
        request.scope[PRINCIPAL] = found[0][1]  # until the agent is known
        return found

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
            return allowed[0][0]  # which refuses the body
        return self._models[check_model(given, *(model.name for model, _ in allowed))]

    async def _owner(self, request: Request) -> ServedModel:
        """Return the model to which the response of the path belongs.

        For an unknown id, and for one of another principal, it is any model: that refuses it.
        """
        allowed = self._allowed(request)
        any_model = allowed[0][0]
        stream_id = stream_of(request.path_params["response_id"])
        if stream_id is None:
            return any_model
        runtime = await any_model.runtime()
        try:
            owner = (await runtime.log.meta(stream_id)).principal
        except UnknownStream:
            return any_model
        found = (model for model, principal in allowed if principal == owner)
        return next(found, any_model)


def _model_in(body: bytes) -> Any:
    """Return the model that a body names, without making objects of the rest."""
    try:
        return _BODY.validate_json(body)["model"]
    except ValidationError:
        return _UNREADABLE
