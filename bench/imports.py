"""The cost of an import in a new process, and the modules that it loads."""

import os
import subprocess
import sys
from functools import partial

import coreason_client

from ._measure import Effort, Table, Turn, at_most, compare, fact, measure

__all__ = ["table"]

_OPTIONAL = {"aiohttp", "starlette", "typer", "genai_prices", "rich", "uvicorn"}
_LEAST = """
import httpx2, pydantic
class Model(pydantic.BaseModel):
    name: str
"""
_CLIENT = "from coreason_client import CAPClient"
_PARTS = "import coreason_client.cap._resume, coreason_client._http._sync"


def _command(code: str) -> list[str]:
    return [sys.executable, "-I", "-c", code]


def _child_cpu(code: str) -> float:
    command = _command(code)
    child = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise AssertionError(f"this failed in a new process: {code}")
    return usage.ru_utime + usage.ru_stime


def _loaded_by(code: str) -> str:
    """Return the optional packages that are loaded afterwards."""
    look = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(_command(look), check=True, capture_output=True, text=True)
    return ", ".join(sorted(set(done.stdout.split()) & _OPTIONAL)) or "none"


def _ours() -> tuple[str, str]:
    """Return a name and the code: the client, or its parts until there is one."""
    if "CAPClient" in coreason_client.__all__:
        return "CAPClient", _CLIENT
    return "the parts of CAPClient", _PARTS


def table(effort: Effort) -> Table:
    """Compare with what any client on the same two libraries has to import."""
    ours, code = _ours()
    least, nothing = "httpx2, pydantic and a model", "nothing"
    codes = {ours: code, least: _LEAST, nothing: "pass"}
    turns: dict[str, Turn] = {name: partial(_child_cpu, code) for name, code in codes.items()}
    costs = measure(turns, effort)
    net = {
        name: [cost - start for cost, start in zip(costs[name], costs[nothing], strict=True)]
        for name in (ours, least)
    }
    return Table(
        "Importing in a new process",
        "process",
        [
            compare(costs, ours, least, at_most(1.3)),
            compare(net, ours, least, where="without the start of Python: "),
            fact(f"loaded of {', '.join(sorted(_OPTIONAL))}", _loaded_by(code), "none"),
        ],
    )
