"""The examples of docs/llm-reliability.md run, and the page names what the code does."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from coreason_client.llm import Budget, LLMBudgetError, ResponseCache, Router
from coreason_client.llm.router import _call_gate
from coreason_client.llm.router._reservation import _BYTES_PER_TOKEN, _TOKENS_PER_MEDIUM
from tests.llm.server import Replied, ServerInThread

PAGE = (Path(__file__).parents[3] / "docs" / "llm-reliability.md").read_text()
SECTION = PAGE.partition("## Several deployments, budgets and a cache\n")[2].partition("\n## ")[0]
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
BODY = {
    "choices": [{"message": {"content": "Hello!"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 30_000},
}


def test_the_router_of_the_page_answers_within_its_budget() -> None:
    with ServerInThread(Replied(body=json.dumps(BODY).encode())) as server:
        code = EXAMPLES[0].replace("https://x.openai.azure.com", server.url)
        names: dict[str, Any] = {}
        exec(code.replace("weight=3", "weight=0").replace("…", "secret"), names)
        with names["client"]:
            assert names["ask"]("Say hello.", "customer-1") == "Hello!"
            assert names["ask"]("Say hello.", "customer-1") == "Hello!"  # cached
            names["ask"]("Say it again.", "customer-1")
            assert len(server.received) == 2
            with pytest.raises(LLMBudgetError) as caught:  # each answer costs 0.30 dollars
                names["ask"]("Say it once more.", "customer-1")
            assert caught.value.key == "customer-1"


def test_the_client_with_valkey_of_the_page_is_created() -> None:
    names: dict[str, Any] = {}
    exec(EXAMPLES[1].replace("…", "secret"), names)
    assert repr(names["state"]) == "ValkeyState('valkey://127.0.0.1:6379/0', prefix='my-service')"


def test_the_numbers_of_the_page() -> None:
    assert Router({"a": ["m"]}).cooldown == 30
    assert "(30 seconds)" in SECTION
    assert _call_gate._EXPIRY_ALLOWANCE == 30
    assert _call_gate._LONG == 10
    assert _call_gate._MAX_WAIT == 120
    assert (_BYTES_PER_TOKEN, _TOKENS_PER_MEDIUM) == (3, 2000)
    assert Budget(1).unpriced == "refuse"
    assert ResponseCache().seconds == 3600
