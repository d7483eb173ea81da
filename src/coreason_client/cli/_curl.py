"""The `curl` command that `coreason serve` prints."""

import json
import shlex
from pathlib import Path

__all__ = ["curl_line"]

# The smallest valid ServiceRequest; without a request_id, each run is a new request.
_BODY = {
    "context": {"session_id": "demo", "user_id": "me"},
    "payload": {
        "messages": [
            {
                "role": "user",
                "parts": [{"type": "text", "content": "How do I resume a stream?"}],
            }
        ]
    },
}


def curl_line(url: str, authorization: str | None = None, uds: Path | None = None) -> str:
    """Return a command that asks the agent; `authorization` is a header, quoted for the shell."""
    parts = ["curl -N"] if uds is None else ["curl -N --unix-socket", shlex.quote(str(uds))]
    parts += [shlex.quote(f"{url}/assist"), "-H 'Content-Type: application/json'"]
    if authorization is not None:
        parts += ["-H", authorization]
    parts += ["-d", shlex.quote(json.dumps(_BODY, separators=(",", ":")))]
    return " ".join(parts)
