"""The programs on the pages about moving to this package do the same before and after."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coreason_client.server import A2A, AgentApp, AgentStream, ServiceRequest, running
from tests.a2a.serving import serving
from tests.faults import FaultServer
from tests.llm.server import ServerInThread

from ..installed import python_packages
from .compared import (
    OURS,
    PAGES,
    TWELVE,
    Addresses,
    Pair,
    pairs,
    run_pairs,
    singles,
    statuses,
    tasks,
)
from .model_service import KEY, model_service

# One process imports the other packages and runs the programs: ten seconds, a minute if it is busy.
pytestmark = pytest.mark.timeout(200)
ROOT = Path(__file__).parents[2]
OTHERS: dict[str, list[tuple[str, ...]]] = {
    "instructor": [("instructor==1.17.0",)],
    "pydantic-ai": [
        ("openai==3.51.0",),  # the environment has version 2
        ("pydantic-ai-slim==2.66.0", "pydantic-graph==2.66.0", "logfire-api==5.5.0"),
    ],
}
EVENTS = b"id: 1\nevent: number\ndata: one\n\nid: 2\nevent: number\ndata: two\n\ndata: end\n\n"


def check(pair: Pair, before: str, after: str) -> None:
    assert before.strip()
    if pair.printed:
        assert (before, after) == pair.printed, pair.name
    if pair.kind == "differs":
        assert len(pair.printed) == 2, f"{pair.name}: a table says what each of them prints"
    else:
        assert before == after, pair.name


# Models


def outputs_of(folder: Path, *libraries: str, path: str = "") -> Any:
    """Run `compared.py` with a provider, in a process whose packages come from `path` first."""
    authorities = folder / "ca.pem"
    trustme.CA().cert_pem.write_to_path(authorities)
    with ServerInThread() as provider:
        provider.reply = model_service()
        url = f"{provider.url}/v1"
        environment = {
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": url,
            "LLM_API_KEY": KEY,
            "LLM_API_BASE_URL": url,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # otherwise it fetches prices
            "SSL_CERT_FILE": str(authorities),  # each client of openai would read a large file
            "PYTHONPATH": path,
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.docs.compared", *libraries],
            env={**os.environ, **environment},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert provider.most_under_way <= 2  # no program may have more requests at the same time
    return json.loads(done.stdout)


def test_the_programs_about_models(tmp_path: Path) -> None:
    """One test, because its process takes seconds to import openai and litellm."""
    found = outputs_of(tmp_path)
    pairs_print_the_same(found["outputs"])
    shown = [block.output for page in ("openai.md", "litellm.md") for block in singles(page)]
    assert found["singles"] == shown
    tables_name_what_is_raised(found["errors"])
    for library in (OURS, "openai", "litellm"):
        assert found["tasks"][library] == printed_by(library), library


def pairs_print_the_same(found: list[list[str]]) -> None:
    outputs = {name: (before, after) for name, before, after in found}
    expected = [*pairs("openai.md"), *pairs("litellm.md")]
    assert len(outputs) == len(expected) > 15
    for pair in expected:
        check(pair, *outputs[pair.name])


def tables_name_what_is_raised(found: dict[str, list[tuple[int, str, str]]]) -> None:
    for page in ("openai.md", "litellm.md"):
        raised = {status: (theirs, ours) for status, theirs, ours in found[page]}
        assert raised == statuses(page)
        assert len(raised) > 5


@pytest.mark.parametrize("library", OTHERS)
def test_the_programs_of_libraries_that_are_installed_for_it(library: str, tmp_path: Path) -> None:
    path = os.pathsep.join(str(python_packages(*packages)) for packages in OTHERS[library])
    assert outputs_of(tmp_path, library, path=path)["tasks"] == {library: printed_by(library)}


def printed_by(library: str) -> dict[str, str]:
    return {task.name: task.printed for task in tasks() if library in task.programs}


def length(program: str) -> int:
    lines = (line.strip() for line in program.splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def test_our_programs_are_never_longer(tmp_path: Path) -> None:
    found = tasks()
    assert len(found) == 12
    assert sum(len(task.programs) for task in found) == 5 * 12 - 3  # the page says what is missing
    for number, task in enumerate(found):
        assert set(task.programs) <= {OURS, "openai", "litellm", *OTHERS}, task.name
        shortest = min(map(length, task.programs.values()))
        assert length(task.programs[OURS]) <= shortest, task.name
        for library, code in task.programs.items():
            (tmp_path / f"{number}-{library}.py").write_text(code, encoding="utf-8")
    # Lines can be compared because one formatter has made them.
    ruff = [sys.executable, "-m", "ruff", "format", "--diff", "--config", "pyproject.toml"]
    formatted = subprocess.run(
        [*ruff, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert formatted.returncode == 0, formatted.stdout + formatted.stderr


# Agents


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    if stream.question == "Count to 3":
        for text in ("1", " 2", " 3"):
            await stream.write(text)
    else:
        await stream.write(f"You said: {stream.question}")


async def events(request: Request) -> Response:
    return Response(EVENTS, media_type="text/event-stream")


async def hook(request: Request) -> Response:
    return Response(status_code=204)


@pytest.fixture(scope="module")
def addresses() -> Iterator[Addresses]:
    webhooks = A2A(allow_http_webhooks=True, allow_private_webhooks=True)
    routes = [Route("/numbers", events), Route("/hook", hook, methods=["POST"])]
    with (
        running(AgentApp(agent, a2a=webhooks, drain_timeout=0.1)) as server,
        serving(Starlette(routes=routes)) as other,
        FaultServer() as faults,
    ):
        yield {
            "https://agent.example": lambda: server.url,
            "https://a2a.example": lambda: server.url,
            "https://my.example": lambda: other,
            "https://events.example": lambda: other,
            "https://cut.example": lambda: faults.run("clean_end_without_close").base_url,
        }


@pytest.mark.parametrize("page", ["a2a-sdk.md", "httpx-sse.md"])
def test_the_pages_about_agents(page: str, addresses: Addresses) -> None:
    expected = pairs(page)
    outputs = list(run_pairs(page, addresses))
    assert len(outputs) == len(expected) > 3
    for pair, (name, before, after) in zip(expected, outputs, strict=True):
        assert name == pair.name
        check(pair, before, after)


def test_every_page_is_run() -> None:
    assert not any(singles(page) for page in ("a2a-sdk.md", "httpx-sse.md"))
    found = {page.name for page in PAGES.glob("*.md")}
    assert found == {"a2a-sdk.md", "httpx-sse.md", "litellm.md", "openai.md", TWELVE}
