"""The agent of a React chat, and the server of its page.

    npm install
    npm run build
    python agent.py

Open http://127.0.0.1:8000 and ask for a place, or ask to delete something.
"""

import asyncio
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, SQLiteStreamLog

PORT = 8000
PAUSE = 0.2  # seconds between two words


async def assist(request: ServiceRequest, stream: AgentStream) -> None:
    if (approval := request.payload.metadata["ai_sdk"].get("approval")) is not None:
        if approval["approved"]:
            call_id = await stream.tool_call(
                "delete", approval["arguments"], id=approval["call_id"]
            )
            await stream.tool_result(call_id, "deleted")
        await stream.write("It is gone." if approval["approved"] else "Then I keep it.")
        return
    name = stream.question.rstrip(".?!").split()[-1]
    if name == "trip":
        await stream.ask("Where to?")
        return
    if "delete" in stream.question.lower():
        call_id = await stream.tool_call("delete", {"name": name})
        await stream.ask(f"May I delete {name}?", call_id=call_id)
        return
    await stream.thought(f"I look up {name} first.")
    call_id = await stream.tool_call("look_up", {"name": name})
    await stream.tool_result(call_id, {"days": 4})
    await stream.cite(f"https://guides.example/{name}", title=f"A guide to {name}")
    for day in range(1, 5):
        for word in f"Day {day}: walk through {name} and look at everything.".split():
            await stream.write(f"{word} ")
            await asyncio.sleep(PAUSE)
        await stream.write("\n")


agent = AgentApp(assist, ai_sdk=True, durable=True, log=SQLiteStreamLog("chats.db"))
page = StaticFiles(directory=Path(__file__).parent / "public", html=True)
app = Starlette(lifespan=agent.lifespan, routes=[Mount("/agent", agent), Mount("/", page)])

if __name__ == "__main__":
    uvicorn.run(app, port=PORT)
