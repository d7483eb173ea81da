"""An MCP server over stdio without any library, which starts fast and misbehaves on request."""

import json
import os
import sys
import time
from typing import Any

MODE = sys.argv[1]


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


def listing(cursor: str | None) -> dict[str, Any]:
    if MODE == "pages":
        page = int(cursor or 0)
        after = {"nextCursor": str(page + 1)} if page < 2 else {}
        return {"tools": [tool(f"t{page}")], **after}
    if MODE == "endless":
        return {"tools": [tool("t")], "nextCursor": "again"}
    return {"tools": [tool("die"), tool("hang"), tool("fine")]}


def call(name: str) -> dict[str, Any]:
    if name == "die":
        os._exit(3)
    if name == "hang":
        time.sleep(1000)
    return {"content": [{"type": "text", "text": "fine"}]}


def reply(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "small", "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
    if method == "tools/list":
        return listing(params.get("cursor"))
    return call(params["name"])


for line in sys.stdin:
    request = json.loads(line)
    if MODE == "silent" or "id" not in request:
        continue
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    if request["method"] in ("initialize", "tools/list", "tools/call"):
        answer["result"] = reply(request["method"], request.get("params") or {})
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
