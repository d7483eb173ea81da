"""The program: one agent under several faces, each with its own card.

Every face is a path of the same server. It prints its port when it listens; it ends with the
process.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

import grpc.aio  # type: ignore[import-untyped]
import uvicorn
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.conversions import to_compat_agent_card
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.server.request_handlers import DefaultRequestHandler, RequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, a2a_pb2_grpc
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from tests.a2a.peer.agent import Agent
from tests.a2a.peer.facts import TENANT

HOST: Final = "127.0.0.1"
CARD: Final = "/.well-known/agent-card.json"


def make_card(name: str, interfaces: list[AgentInterface], *, able: bool) -> AgentCard:
    """Make the card of an agent that can do everything, or no more than it must."""
    return AgentCard(
        name=name,
        description="Does what the first word of a message says.",
        version="1.2.3",
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(
            streaming=able, push_notifications=able, extended_agent_card=able
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="count", name="Count", description="Counts.", tags=["numbers"])],
    )


def make_handler(*, able: bool) -> RequestHandler:
    """Make what answers all calls of the faces that share it."""
    # Not where anybody calls: an extended card has to have interfaces of both versions.
    interfaces = [
        AgentInterface(url="http://localhost", protocol_binding="JSONRPC", protocol_version=version)
        for version in ("1.0", "0.3")
    ]
    return DefaultRequestHandler(
        agent_executor=Agent(),
        task_store=InMemoryTaskStore(),
        agent_card=make_card("peer", interfaces, able=able),
        push_config_store=InMemoryPushNotificationConfigStore() if able else None,
        extended_agent_card=make_card("extended peer", interfaces, able=able) if able else None,
    )


def rpc_1_0(handler: RequestHandler) -> list[BaseRoute]:
    """Speak JSON-RPC, 1.0 only."""
    return [*create_jsonrpc_routes(handler, "/rpc")]


def rpc_both(handler: RequestHandler) -> list[BaseRoute]:
    """Speak JSON-RPC in both dialects at one address."""
    return [*create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True)]


def rpc_0_3(handler: RequestHandler) -> list[BaseRoute]:
    """Speak JSON-RPC, 0.3 only: the names of 1.0 are unknown methods, as on an old server."""
    # Not at the head of the file: the module can only be imported after the routes.
    from a2a.compat.v0_3.jsonrpc_adapter import JSONRPC03Adapter

    adapter = JSONRPC03Adapter(handler)

    async def answer(request: Request) -> Response:
        body = await request.json()
        if adapter.supports_method(body["method"]):
            return await adapter.handle_request(body["id"], body["method"], body, request)
        error = {"code": -32601, "message": "Method not found"}
        return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "error": error})

    return [Route("/rpc", answer, methods=["POST"])]


def rest_1_0(handler: RequestHandler) -> list[BaseRoute]:
    """Speak HTTP+JSON."""
    return create_rest_routes(handler)


def rest_0_3(handler: RequestHandler) -> list[BaseRoute]:
    """Speak HTTP+JSON, 0.3 only: the paths of 1.0 are not there."""
    routes = create_rest_routes(handler, enable_v0_3_compat=True)
    return [route for route in routes if getattr(route, "path", "").startswith("/v1/")]


def old_card_routes(card: AgentCard, path: str = CARD) -> list[BaseRoute]:
    """Serve a card that has nothing of 1.0 in it."""
    document = to_compat_agent_card(card).model_dump(mode="json", by_alias=True, exclude_none=True)

    async def answer(request: Request) -> Response:
        return JSONResponse(document)

    return [Route(path, answer)]


def face(
    origin: str,
    path: str,
    handler: RequestHandler,
    speak: Callable[[RequestHandler], list[BaseRoute]],
    *,
    versions: tuple[str, ...] = ("1.0",),
    tenant: str = "",
    able: bool = True,
    grpc_port: int | None = None,
) -> Mount:
    """Make one face: a card, and the calls that it points to."""
    is_rest = speak in (rest_1_0, rest_0_3)
    binding = "HTTP+JSON" if is_rest else "JSONRPC"
    url = f"{origin}/{path}" + ("" if is_rest else "/rpc")
    if grpc_port is not None:
        binding, url = "GRPC", f"{HOST}:{grpc_port}"
    interfaces = [
        AgentInterface(url=url, protocol_binding=binding, protocol_version=version, tenant=tenant)
        for version in versions
    ]
    card = make_card(f"{path} peer", interfaces, able=able)
    if versions == ("0.3",):
        # Old agents have their card at the old address as well, or there only.
        old = "/.well-known/agent.json"
        cards = old_card_routes(card, CARD if able else old)
    else:
        cards = [*create_agent_card_routes(card, cache_control="max-age=60")]
    return Mount(f"/{path}", routes=[*cards, *speak(handler)])


def nothing(handler: RequestHandler) -> list[BaseRoute]:
    """Speak gRPC, which has its own port."""
    return []


def make_grpc(handler: RequestHandler) -> tuple[grpc.aio.Server, int]:
    """Make a server that speaks gRPC in both dialects, and choose its port."""
    server = grpc.aio.server()
    for services, servicer in (
        (a2a_pb2_grpc, GrpcHandler(handler)),
        (a2a_v0_3_pb2_grpc, CompatGrpcHandler(handler)),
    ):
        add_servicer: Any = services.add_A2AServiceServicer_to_server
        add_servicer(servicer, server)
    return server, server.add_insecure_port(f"{HOST}:0")


def grpc_faces(
    origin: str, able: RequestHandler, unable: RequestHandler, ports: tuple[int, int]
) -> list[Mount]:
    """Make the faces whose calls go over gRPC; their cards are at the common origin."""
    port, plain_port = ports
    old = ("0.3",)
    return [
        face(origin, "grpc-1.0", able, nothing, grpc_port=port),
        face(origin, "grpc-0.3", able, nothing, grpc_port=port, versions=old),
        face(origin, "tenant-grpc-1.0", able, nothing, grpc_port=port, tenant=TENANT),
        face(origin, "plain-grpc-1.0", unable, nothing, grpc_port=plain_port, able=False),
        face(
            origin,
            "plain-grpc-0.3",
            unable,
            nothing,
            grpc_port=plain_port,
            versions=old,
            able=False,
        ),
    ]


def make_app(
    origin: str, able: RequestHandler, unable: RequestHandler, ports: tuple[int, int]
) -> Starlette:
    """Put all faces together."""
    return Starlette(
        routes=[
            *grpc_faces(origin, able, unable, ports),
            face(origin, "jsonrpc-1.0", able, rpc_1_0),
            face(origin, "rest-1.0", able, rest_1_0),
            face(origin, "jsonrpc-0.3", able, rpc_0_3, versions=("0.3",)),
            face(origin, "rest-0.3", able, rest_0_3, versions=("0.3",)),
            face(origin, "both", able, rpc_both, versions=("0.3", "1.0")),
            face(origin, "tenant-jsonrpc-1.0", able, rpc_1_0, tenant=TENANT),
            face(origin, "tenant-rest-1.0", able, rest_1_0, tenant=TENANT),
            face(origin, "plain-jsonrpc-1.0", unable, rpc_1_0, able=False),
            face(origin, "plain-rest-1.0", unable, rest_1_0, able=False),
            face(origin, "plain-jsonrpc-0.3", unable, rpc_0_3, versions=("0.3",), able=False),
            face(origin, "plain-rest-0.3", unable, rest_0_3, versions=("0.3",), able=False),
        ]
    )


async def main() -> None:
    """Listen, say where, and serve until the process ends."""
    logging.disable()  # errors are what many tests ask for
    listener = socket.create_server((HOST, 0))
    port = listener.getsockname()[1]
    able, unable = make_handler(able=True), make_handler(able=False)
    servers = [make_grpc(able), make_grpc(unable)]
    for server, _ in servers:
        await server.start()
    app = make_app(f"http://{HOST}:{port}", able, unable, (servers[0][1], servers[1][1]))
    print(port, flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve([listener])
    for server, _ in servers:
        await server.stop(0)


if __name__ == "__main__":
    asyncio.run(main())
