"""The lifespan protocol of ASGI; failures are reported in one sentence, without a traceback."""

from contextlib import AbstractAsyncContextManager

from starlette.types import Receive, Send


async def serve_lifespan(
    context: AbstractAsyncContextManager[None], receive: Receive, send: Send
) -> None:
    """Enter the context when the server starts, and leave it when the server stops."""
    await receive()  # lifespan.startup
    try:
        await context.__aenter__()
    except Exception as error:  # noqa: BLE001 - reported to the server
        await send({"type": "lifespan.startup.failed", "message": str(error)})
        return
    await send({"type": "lifespan.startup.complete"})
    await receive()  # lifespan.shutdown
    await context.__aexit__(None, None, None)
    await send({"type": "lifespan.shutdown.complete"})
