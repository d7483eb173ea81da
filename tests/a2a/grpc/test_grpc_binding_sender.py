"""Cards with a gRPC interface: when it is used, and what happens without the extra."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from a2a.compat.v0_3 import a2a_v0_3_pb2

from coreason_client.a2a import (
    A2AClient,
    A2ANoSupportedInterfaceError,
    A2AOriginError,
    AgentCard,
    AgentInterface,
    AsyncA2AClient,
    AsyncGrpcTransport,
    GrpcTransport,
    _options,
)
from coreason_client.errors import ArgumentError, MissingExtraError
from tests.a2a.grpc.scripted import SdkServer, scripted, text
from tests.a2a.peer.driving import done, driven, every, opened
from tests.a2a.peer.facts import chunks

CLIENTS = [A2AClient, AsyncA2AClient]


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def origin(a2a_peer: str) -> str:
    return a2a_peer


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def interface(url: str, binding: str, version: str = "1.0") -> AgentInterface:
    return AgentInterface(url=url, protocol_binding=binding, protocol_version=version)


def card(*interfaces: AgentInterface) -> AgentCard:
    return AgentCard(name="x", supported_interfaces=list(interfaces))


def url_of(client: Any) -> str:
    return str(client.transport._route.channel.url)


# The order of the card.


@driven
async def test_the_order_of_the_card_decides(kind: Any, origin: str) -> None:
    with SdkServer() as server:
        over_grpc = interface(server.address, "GRPC")
        over_http = interface(f"{origin}/jsonrpc-1.0/rpc", "JSONRPC")
        for interfaces in ((over_grpc, over_http), (over_http, over_grpc)):
            async with opened(kind.from_agent_card(card(*interfaces))) as client:
                assert (await done(client.send_message("hello you"))).text == "Hello, you!"
                used = f"http://{over_grpc.url}" if interfaces[0] is over_grpc else over_http.url
                assert url_of(client) == used


@driven
async def test_each_binding_replaces_the_other_if_it_cannot_be_reached(
    kind: Any, origin: str, closed_port: int
) -> None:
    with SdkServer() as server:
        for interfaces in (
            (
                interface(f"127.0.0.1:{closed_port}", "grpc"),
                interface(f"{origin}/jsonrpc-1.0/rpc", "JSONRPC"),
            ),
            (
                interface(f"http://127.0.0.1:{closed_port}/rpc", "JSONRPC"),
                interface(server.address, "GRPC"),
            ),
        ):
            async with opened(kind.from_agent_card(card(*interfaces))) as client:
                stream = client.send_message_stream("count 3")
                await every(stream)
                assert stream.text == "".join(chunks(3))
                assert (await done(client.send_message("hello you"))).text == "Hello, you!"


# A stream that ends with its task leaves the end of its body unread, of which trio warns.
@pytest.mark.filterwarnings(r"ignore:Async generator 'http\S+\.__aiter__' was:ResourceWarning")
def test_on_trio_the_next_interface_is_used(origin: str) -> None:
    found = card(
        interface("127.0.0.1:9", "GRPC"), interface(f"{origin}/jsonrpc-1.0/rpc", "JSONRPC")
    )

    async def main() -> None:
        async with AsyncA2AClient.from_agent_card(found) as client:
            answer: Any = await client.send_message("hello you")
            assert answer.text == "Hello, you!"

    trio.run(main)


@driven
async def test_a_version_that_the_card_does_not_name(kind: Any) -> None:
    def answer(request: Any, context: Any) -> Any:
        return text("from 1.0")

    def old_answer(request: Any, context: Any) -> Any:
        parts = [a2a_v0_3_pb2.Part(text="from 0.3")]
        return a2a_v0_3_pb2.SendMessageResponse(
            msg=a2a_v0_3_pb2.Message(message_id="m", content=parts)
        )

    for old, behaviour in ((False, answer), (True, old_answer)):
        with scripted(old=old, SendMessage=behaviour) as (address, _):
            found = card(interface(address, "GRPC", ""))
            async with opened(kind.from_agent_card(found)) as client:
                for _ in range(2):
                    said = (await done(client.send_message("hi"))).text
                    assert said == ("from 0.3" if old else "from 1.0")
                assert client.transport.version == ("0.3" if old else "1.0")


# Which address.


@driven
async def test_credentials_stay_at_the_named_origin(kind: Any) -> None:
    over_grpc = interface("https://agent.example:50051", "GRPC")
    over_http = interface("https://agent.example/rpc", "JSONRPC")
    found = card(over_http, over_grpc)
    async with opened(kind.from_agent_card(found, auth="secret")) as client:
        assert len(client.transport._route.interfaces) == 1
    allowed = ["https://agent.example:50051"]
    options = {"auth": "secret", "interface_origins": allowed}
    async with opened(kind.from_agent_card(found, **options)) as client:
        assert len(client.transport._route.interfaces) == 2
    plain = card(over_http, interface("http://agent.example:50051", "GRPC"))
    async with opened(kind.from_agent_card(plain)) as client:
        assert len(client.transport._route.interfaces) == 1


@driven
async def test_an_address_that_cannot_be_called_is_left_out(kind: Any) -> None:
    with pytest.raises(A2ANoSupportedInterfaceError):
        kind.from_agent_card(card(interface("unix:///run/agent.sock", "GRPC")))


@pytest.mark.parametrize("make", [GrpcTransport, AsyncGrpcTransport])
def test_the_arguments_of_a_transport_are_checked(make: Any) -> None:
    with pytest.raises(ArgumentError, match=r"version must be 1\.0 or 0\.3, got '2\.0'"):
        make("localhost:1", version="2.0")
    with pytest.raises(ArgumentError, match="url must be"):
        make("https://localhost/path")
    assert repr(make("localhost:1", version="0.3")) == f"{make.__name__}(version='0.3')"


# Without the extra.


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_options, "is_installed", lambda: False)


@pytest.mark.usefixtures("without_extra")
def test_without_the_extra_the_error_names_it(kind: Any) -> None:
    with pytest.raises(
        A2ANoSupportedInterfaceError,
        match=r"offers GRPC 1\.0; .*GRPC needs the extra 'grpc': pip install 'coreason-client\[grp",
    ):
        kind.from_agent_card(card(interface("agent.example:443", "GRPC")))
    with pytest.raises(A2ANoSupportedInterfaceError) as caught:
        kind.from_agent_card(card(interface("https://agent.example", "JSONRPC", "2.0")))
    assert "extra" not in str(caught.value)
    make = GrpcTransport if kind is A2AClient else AsyncGrpcTransport
    with pytest.raises(MissingExtraError, match="gRPC for A2A needs the extra 'grpc'"):
        make("localhost:1")


@pytest.mark.usefixtures("without_extra")
@driven
async def test_without_the_extra_the_other_bindings_are_used(kind: Any, origin: str) -> None:
    interfaces = (
        interface("127.0.0.1:9", "GRPC"),
        interface(f"{origin}/jsonrpc-1.0/rpc", "JSONRPC"),
    )
    async with opened(kind.from_agent_card(card(*interfaces))) as client:
        assert (await done(client.send_message("hello you"))).text == "Hello, you!"
        assert url_of(client) == interfaces[1].url


def test_a_card_with_only_other_origins() -> None:
    found = card(interface("https://agent.example:50051", "GRPC"))
    found._fetched_from = "https://other.example"

    async def main() -> None:
        with pytest.raises(A2AOriginError, match=r"agent\.example:50051"):
            AsyncA2AClient.from_agent_card(found, auth="secret")

    asyncio.run(main())
