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

from .compared import PAGES, Addresses, Pair, pairs, run_pairs, singles, statuses
from .model_service import KEY, model_service

# One process imports the other packages and runs the programs: ten seconds, a minute if it is busy.
pytestmark = pytest.mark.timeout(200)
ROOT = Path(__file__).parents[2]
EVENTS = b"id: 1\nevent: number\ndata: one\n\nid: 2\nevent: number\ndata: two\n\ndata: end\n\n"


def check(pair: Pair, before: str, after: str) -> None:
    assert before.strip()
    if pair.printed:
        assert (before, after) == pair.printed, pair.name
    if pair.kind == "differs":
        assert len(pair.printed) == 2, f"{pair.name}: a table says what each of them prints"
    else:
        assert before == after, pair.name


# Models: openai and litellm take seconds to import, so they get one process.


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    authorities = tmp_path_factory.mktemp("certificates") / "ca.pem"
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
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.docs.compared"],
            env={**os.environ, **environment},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_pages_about_models(models: Any) -> None:
    outputs = {name: (before, after) for name, before, after in models["outputs"]}
    expected = [*pairs("openai.md"), *pairs("litellm.md")]
    assert len(outputs) == len(expected) > 15
    for pair in expected:
        check(pair, *outputs[pair.name])


def test_the_other_programs_about_models(models: Any) -> None:
    shown = [block.output for page in ("openai.md", "litellm.md") for block in singles(page)]
    assert models["singles"] == shown
    assert not any(singles(page) for page in ("a2a-sdk.md", "httpx-sse.md"))


@pytest.mark.parametrize("page", ["openai.md", "litellm.md"])
def test_the_tables_of_errors_name_what_is_raised(models: Any, page: str) -> None:
    raised = {status: (theirs, ours) for status, theirs, ours in models["errors"][page]}
    assert raised == statuses(page)
    assert len(raised) > 5


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
    found = {page.name for page in PAGES.glob("*.md")}
    assert found == {"a2a-sdk.md", "httpx-sse.md", "litellm.md", "openai.md"}
