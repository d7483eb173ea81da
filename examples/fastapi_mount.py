"""An agent within a FastAPI application that has its own routes and its own lifespan.

    python examples/fastapi_mount.py
    coreason chat --url http://127.0.0.1:8000/agent "Hello."
    curl http://127.0.0.1:8000/answers

It needs `pip install fastapi`.
"""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from coreason_client.server import AgentApp, AgentStream, ServiceRequest

answers = {"count": 0}


async def assist(request: ServiceRequest, stream: AgentStream) -> str:
    answers["count"] += 1
    return f"You said: {stream.question}"


agent = AgentApp(assist)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # A server runs the lifespan of the outer application only, so that one starts the agent.
    async with agent.lifespan():
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/agent", agent)


@app.get("/answers")
def show_answers() -> dict[str, int]:
    return answers


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve an application with an agent in it.")
    parser.add_argument("--port", type=int, default=8000)
    uvicorn.run(app, port=parser.parse_args().port)
