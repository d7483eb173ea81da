"""An MCP server over stdio without any library, which starts fast and misbehaves on request."""

import json
import os
import sys
import time
from typing import Any

MODE = sys.argv[1]
announced: dict[str, Any] = {}
waiting: list[str] = []  # requests that came during a question


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


def listing(cursor: str | None) -> dict[str, Any]:
    if MODE == "pages":
        page = int(cursor or 0)
        after = {"nextCursor": str(page + 1)} if page < 2 else {}
        return {"tools": [tool(f"t{page}")], **after}
    if MODE == "endless":
        return {"tools": [tool("t")], "nextCursor": "again"}
    return {"tools": [tool("die"), tool("hang"), tool("fine"), tool("ask"), tool("ask_url")]}


def call(name: str) -> dict[str, Any]:
    if name == "die":
        os._exit(3)
    if name == "hang":
        time.sleep(1000)
    if name.startswith("ask"):
        return {"content": [{"type": "text", "text": ask(url=name == "ask_url")}]}
    return {"content": [{"type": "text", "text": "fine"}]}


def ask(*, url: bool) -> str:
    """Ask the user as servers did before 2026; return the answer."""
    if "elicitation" not in announced:
        return "nobody can be asked"
    asked: dict[str, Any] = {"mode": "url", "url": "https://x.example", "elicitationId": "1"}
    if not url:
        asked = {"requestedSchema": {"type": "object", "properties": {"city": {"type": "string"}}}}
    params = {"message": "Which city?", **asked}
    send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
    while json.loads(line := sys.stdin.readline()).get("id") != "q":
        waiting.append(line)
    return json.dumps(json.loads(line)["result"])


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def reply(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        announced.update(params["capabilities"])
        info = {"name": "small", "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
    if method == "tools/list":
        return listing(params.get("cursor"))
    return call(params["name"])


while line := waiting.pop(0) if waiting else sys.stdin.readline():
    request = json.loads(line)
    if MODE == "silent" or "id" not in request:
        continue
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    if request["method"] in ("initialize", "tools/list", "tools/call"):
        answer["result"] = reply(request["method"], request.get("params") or {})
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    send(answer)
