"""A web page that talks to an agent with short-lived tickets instead of a key.

    python examples/browser_tickets.py

Open http://127.0.0.1:8000. The page asks `/ticket` for a ticket before each request; here everybody
with the cookie of the page gets one. In your application it is whoever has signed in.
"""

import argparse
import secrets

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, create_ticket

SECRET = secrets.token_hex(32)  # several processes share one, see `ticket_secrets`
PAGE = """<!doctype html>
<title>Tickets</title>
<form id="form"><input id="question" value="Hello"> <button>Ask</button></form>
<p id="answer"></p>
<script type="module">
import { CAPClient } from "/agent/page/coreason.js";
const [form, question, answer] =
  ["form", "question", "answer"].map((id) => document.getElementById(id));
const getKey = async () => (await (await fetch("/ticket", { method: "POST" })).json()).ticket;
const client = new CAPClient("/agent", { getKey });
form.onsubmit = async (event) => {
  event.preventDefault();
  answer.textContent = "";
  for await (const text of client.chat(question.value)) answer.append(text);
};
</script>"""


async def assist(request: ServiceRequest, stream: AgentStream) -> str:
    return f"You said: {stream.question}"


async def page(request: Request) -> Response:
    response = HTMLResponse(PAGE)
    visitor = request.cookies.get("visitor") or secrets.token_urlsafe(16)
    response.set_cookie("visitor", visitor, httponly=True, samesite="strict")
    return response


async def ticket(request: Request) -> Response:
    if not (visitor := request.cookies.get("visitor")):
        return JSONResponse({"detail": "Open the page first."}, 401)
    return JSONResponse({"ticket": create_ticket(SECRET, visitor)})


agent = AgentApp(assist, ticket_secrets=[SECRET], page=True)
app = Starlette(
    lifespan=agent.lifespan,
    routes=[Route("/", page), Route("/ticket", ticket, methods=["POST"]), Mount("/agent", agent)],
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve a page with an agent behind it.")
    parser.add_argument("--port", type=int, default=8000)
    uvicorn.run(app, port=parser.parse_args().port)
