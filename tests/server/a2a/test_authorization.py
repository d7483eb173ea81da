"""A task that waits for an authorization, for our own clients: A2A and CAP."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coreason_client import A2AClient, CAPClient
from coreason_client.a2a import GrpcTransport, TaskState
from coreason_client.a2a.transport import JsonRpcTransport, RestTransport
from coreason_client.server import A2A, AgentApp, AgentStream, ServiceRequest, running

QUESTION = "Sign in at https://example.com/login."
Addresses = tuple[str, str]
TRANSPORTS: dict[str, Callable[[str, str], Any]] = {
    "jsonrpc-1.0": lambda url, _: JsonRpcTransport(f"{url}/a2a", version="1.0"),
    "jsonrpc-0.3": lambda url, _: JsonRpcTransport(f"{url}/a2a", version="0.3"),
    "rest-1.0": lambda url, _: RestTransport(f"{url}/a2a"),
    "rest-0.3": lambda url, _: RestTransport(f"{url}/a2a", version="0.3"),
    "grpc-1.0": lambda _, address: GrpcTransport(address),
    "grpc-0.3": lambda _, address: GrpcTransport(address, version="0.3"),
}


async def book(request: ServiceRequest, stream: AgentStream) -> None:
    """Books flights."""
    if stream.question == "Done.":
        await stream.write("Booked.")
    else:
        await stream.ask(QUESTION, auth=True)


@pytest.fixture(scope="module")
def agent() -> Iterator[Addresses]:
    """The URL of an agent, and its address for gRPC."""
    app = AgentApp(book, a2a=A2A(grpc_address="127.0.0.1:0"))
    with running(app) as server:
        yield server.url, f"127.0.0.1:{app.grpc_port}"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_gets_the_question_and_answers_it(agent: Addresses, transport: str) -> None:
    with A2AClient.with_transport(TRANSPORTS[transport](*agent)) as client:
        asked: Any = client.send_message("Book.")
        assert (asked.status.state, asked.status.text) == (TaskState.AUTH_REQUIRED, QUESTION)
        assert client.wait_for_task(asked.id).status.state is TaskState.AUTH_REQUIRED
        stream = client.send_message_stream("Why?", reply_to=asked)
        states = [event.status.state for event in stream if hasattr(event, "status")]
        assert states[-1] is TaskState.AUTH_REQUIRED
        done: Any = client.send_message("Done.", reply_to=stream)
        assert (done.id, done.status.state) == (asked.id, TaskState.COMPLETED)
        assert done.text == "Booked."


def test_a_client_of_cap_gets_the_question_as_text(agent: Addresses) -> None:
    with CAPClient(agent[0], "any-key") as client:
        stream = client.chat("Book.")
        assert "".join(stream) == QUESTION
        assert client.ask("Done.", stream.conversation_id) == "Booked."
