"""litellm and pydantic-ai as clients of both APIs, each in its own process."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.installed import python_packages, run

from .serving import EVERYTHING, KEY, MODEL, OPENAI_3, TEXT, TEXTS, THOUGHTS, Site, site

HERE = Path(__file__).parent
IMPORT_SECONDS = 120  # litellm alone takes seconds on an idle machine
PYDANTIC_AI = ("pydantic-ai-slim==2.66.0", "pydantic-graph==2.66.0", "logfire-api==5.5.0")


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


def got_by(program: str, server: Site, env: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, str(HERE / program), server.api, KEY, MODEL, EVERYTHING]
    return run(command, env, HERE, IMPORT_SECONDS)


@pytest.mark.timeout(300)
def test_litellm(server: Site) -> None:
    got = got_by("with_litellm.py", server, {"LITELLM_LOCAL_MODEL_COST_MAP": "True"})
    texts = [got.pop(name) for name in ("chat", "chunks", "async", "response", "pieces")]
    assert texts == [TEXT] * 5
    assert got == {
        "reasoning": THOUGHTS,
        "chunks of reasoning": THOUGHTS,
        "usage": [30, 8],
        "finish_reason": "stop",
        "usage of the stream": [38],
        "last event": "response.completed",
        "unknown model": ["NotFoundError", 404],
        "wrong key": ["AuthenticationError", 401],
    }


@pytest.mark.timeout(300)  # the first run installs it
def test_pydantic_ai(server: Site) -> None:
    folders = [python_packages(OPENAI_3), python_packages(*PYDANTIC_AI)]
    path = os.pathsep.join(map(str, folders))
    got = got_by("with_pydantic_ai.py", server, {"PYTHONPATH": path})
    chat, responses = got["OpenAIChatModel"], got["OpenAIResponsesModel"]
    assert chat == {
        "output": TEXT,
        "texts": TEXT,
        "parts": ["thinking", "text"],
        "pieces": TEXT,
        "usage": [30, 8],
        "history": f"user: {EVERYTHING} | assistant: {TEXT}",
    }
    first, second = "".join(TEXTS[:4]), "".join(TEXTS[4:])
    called = ["builtin-tool-call", "builtin-tool-return"]
    # It takes the text after the last call for the result, and puts a line between messages.
    assert responses.pop("history").endswith(f" | assistant: {first} | assistant: {second}")
    assert responses == {
        "output": second,
        "texts": TEXT,
        "parts": ["thinking", "thinking", *called, "thinking", "text", *called * 3, "text"],
        "pieces": f"{first}\n\n{second}",
        "usage": [30, 8],
    }
