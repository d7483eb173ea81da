"""An agent for the official A2A conformance kit, which tests the server around it.

1. Start the agent.

       python examples/a2a_conformance.py --port 9999 --grpc-port 9998

2. Run the kit in a checkout of https://github.com/a2aproject/a2a-tck.

       ./run_tck.py --sut-host http://127.0.0.1:9999

The kit chooses what the agent does by the beginning of the id of its message. For version 0.3 of
the protocol, start the agent with ``--protocol 0.3`` and use the branch 0.3.x of the kit:

       ./run_tck.py --sut-url http://127.0.0.1:9999 --category mandatory

The kit skips its tests of authentication unless the card declares it. With ``--api-key`` the agent
needs a key, and the card says so; the kit gets it from its environment:

       python examples/a2a_conformance.py --port 9999 --api-key tck-key
       A2A_AUTH_TYPE=bearer A2A_AUTH_TOKEN=tck-key ./run_tck.py --sut-host http://127.0.0.1:9999

The agent names the media types that it accepts, so that the kit can test that an unknown one is
refused. Up to version 1.0.0.alpha2 the kit counts that refusal as a failure: for that one, add
``--input-mode '*/*'``.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.types import Message, Receive, Scope, Send

from coreason_client.a2a import AgentCard
from coreason_client.server import A2A, AgentApp, AgentStream, File, Link, ServiceRequest, serve

Behaviour = Callable[[AgentStream], Awaitable[None]]

WORK_SECONDS = 2.0
"""The seconds for which a task works that the kit expects to see at work."""
RESUBSCRIBE_SECONDS = 9.0
"""The seconds for which a task works that the kit subscribes to twice."""
V03_SECONDS = 3.0
"""The seconds for which a task of 0.3 works before it requires input."""
INPUT_MODES = ("text/plain", "text/markdown", "application/json", "application/octet-stream")
"""The media types that the agent accepts."""
PUSH_SECONDS = 0.2
"""The seconds by which the first push notification of a task of 0.3 precedes its stream."""


def text_artifact(text: str) -> Behaviour:
    """Return a behaviour that gives an artifact with text."""

    async def behave(stream: AgentStream) -> None:
        await stream.artifact("text", text)

    return behave


def working(behave: Behaviour) -> Behaviour:
    """Return a behaviour that reports its progress first."""

    async def work(stream: AgentStream) -> None:
        await stream.progress("working")
        await behave(stream)

    return work


def slow(seconds: float, behave: Behaviour) -> Behaviour:
    """Return a behaviour that works for some seconds first."""

    async def work(stream: AgentStream) -> None:
        await stream.progress("working")
        await asyncio.sleep(seconds)
        await behave(stream)

    return work


async def complete(stream: AgentStream) -> None:
    """Complete the task with some text."""
    await stream.write("Hello from TCK")


async def file_artifact(stream: AgentStream) -> None:
    """Give an artifact with the content of a file."""
    await stream.artifact("file", File(b"tck", "output.txt", "text/plain"))


async def link_artifact(stream: AgentStream) -> None:
    """Give an artifact with the URL of a file."""
    link = Link("https://example.com/output.txt", "output.txt", "text/plain")
    await stream.artifact("link", link)


async def data_artifact(stream: AgentStream) -> None:
    """Give an artifact with data."""
    await stream.artifact("data", {"key": "value", "count": 42})


async def chunked_artifact(stream: AgentStream) -> None:
    """Give an artifact in two pieces."""
    await stream.artifact("chunks", "chunk-1 ", last_chunk=False)
    await stream.artifact("chunks", "chunk-2", append=True)


async def message(stream: AgentStream) -> None:
    """Answer with a message instead of a task."""
    await stream.message("Direct message response")


async def ask(stream: AgentStream) -> None:
    """Require input."""
    await stream.ask("What else?")


async def authorize(stream: AgentStream) -> None:
    """Require an authorization."""
    await stream.ask("Please log in", auth=True)


async def reject(stream: AgentStream) -> None:
    """Reject the task."""
    await stream.reject("rejected")


BEHAVIOURS: Mapping[str, Behaviour] = {
    "tck-complete-task": complete,
    "tck-delayed-complete": slow(WORK_SECONDS, complete),
    "tck-artifact-text": text_artifact("Generated text content"),
    "tck-artifact-file": file_artifact,
    "tck-artifact-file-url": link_artifact,
    "tck-artifact-data": data_artifact,
    "tck-message-response": message,
    "tck-input-required": ask,
    "tck-auth-required": authorize,
    "tck-reject-task": reject,
    "tck-stream-001": working(text_artifact("Stream hello from TCK")),
    "tck-stream-002": message,
    "tck-stream-003": working(text_artifact("Stream task lifecycle")),
    "tck-stream-ordering-001": working(text_artifact("Ordered output")),
    "tck-stream-artifact-text": working(text_artifact("Streamed text content")),
    "tck-stream-artifact-file": working(file_artifact),
    "tck-stream-artifact-chunked": working(chunked_artifact),
    "test-resubscribe-message-id": slow(RESUBSCRIBE_SECONDS, complete),
}
"""The behaviour of the agent, by the beginning of the message's id; the longest one counts."""


def behaviour_for(message_id: str) -> Behaviour:
    """Return what the agent does for a message."""
    prefixes = [prefix for prefix in BEHAVIOURS if message_id.startswith(prefix)]
    return BEHAVIOURS[max(prefixes, key=len)] if prefixes else complete


async def conformance(request: ServiceRequest, stream: AgentStream) -> None:
    """Does what the conformance kit expects."""
    await behaviour_for(request.payload.metadata["a2a"]["messageId"])(stream)


async def conformance_v03(request: ServiceRequest, stream: AgentStream) -> None:
    """Does what the conformance kit for version 0.3 expects."""
    message_id = request.payload.metadata["a2a"]["messageId"]
    known = message_id.startswith(tuple(BEHAVIOURS))
    await (behaviour_for(message_id) if known else slow(V03_SECONDS, ask))(stream)


class UnhurriedApp(AgentApp):
    """Begins every stream a little later.

    The kit for 0.3 looks for the push notification of a task as soon as it has the first event of
    its stream, and does not wait for it.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as ASGI."""

        async def begin_later(message: Message) -> None:
            if message["type"] == "http.response.start":
                content_type: bytes = dict(message["headers"]).get(b"content-type", b"")
                if content_type.startswith(b"text/event-stream"):
                    await asyncio.sleep(PUSH_SECONDS)
            await send(message)

        await super().__call__(scope, receive, begin_later)


def make_app(
    protocol: str = "1.0",
    grpc_address: str | None = None,
    input_modes: Sequence[str] = INPUT_MODES,
    api_keys: Sequence[str] | None = None,
) -> AgentApp:
    """Return the application; it accepts the media types `input_modes`, and needs one of the keys.

    The kit for 1.0 refuses a card with fields of 0.3, so that one is only served if it is needed.
    """
    card = AgentCard.model_validate(
        {
            "name": "Conformance",
            "description": "Does what the conformance kit expects.",
            "version": "1.0.0",
            "defaultInputModes": list(input_modes),
            "defaultOutputModes": ["text/plain", "application/json"],
            "skills": [
                {"id": "tck", "name": "Kit", "description": "Behaves.", "tags": ["conformance"]}
            ],
        }
    )
    settings = A2A(
        card=card,
        versions=["1.0"] if protocol == "1.0" else ["1.0", "0.3"],
        grpc_address=grpc_address,
        # The kit for 0.3 wants a URL, the one for 1.0 wants the address itself.
        grpc_url=f"http://{grpc_address}" if grpc_address and protocol == "0.3" else None,
        allow_http_webhooks=True,  # the webhooks of the kit are at http://127.0.0.1
        allow_private_webhooks=True,
    )
    if protocol == "0.3":
        return UnhurriedApp(conformance_v03, a2a=settings, api_keys=api_keys)
    return AgentApp(conformance, a2a=settings, api_keys=api_keys)


def main() -> None:
    """Serve the agent until a signal."""
    parser = argparse.ArgumentParser(description="Serve an agent for the A2A conformance kit.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9999)
    parser.add_argument("--protocol", choices=["1.0", "0.3"], default="1.0")
    parser.add_argument("--grpc-port", type=int, help="serve gRPC too, at this port")
    parser.add_argument(
        "--input-mode",
        action="append",
        metavar="TYPE",
        help=f"a media type that the agent accepts (default: {', '.join(INPUT_MODES)})",
    )
    parser.add_argument("--api-key", action="append", metavar="KEY", help="a key that clients need")
    options = parser.parse_args()
    grpc_address = options.grpc_port and f"{options.host}:{options.grpc_port}"
    modes = options.input_mode or INPUT_MODES
    app = make_app(options.protocol, grpc_address, modes, options.api_key)
    serve(app, options.host, options.port, log_level="info")


if __name__ == "__main__":
    main()
