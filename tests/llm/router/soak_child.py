"""A process of the soak: it makes calls, and prints every command of the state before it is sent.

Arguments: the URL of the provider, that of Valkey, the prefix, the seed, the number of calls, and
the path of the provider.
"""

import asyncio
import contextlib
import json
import logging
import random
import sys
from typing import Any

from coreason_client.llm import AsyncLLMClient, Budget, Deployment, LLMError, Router, ValkeyState
from coreason_client.llm._cost import load_prices
from coreason_client.llm.router import _call_gate
from coreason_client.llm.router._rules import Acquire, Acquired, Granted, Refused
from coreason_client.llm.router._state import Command

CONCURRENCY = 8
BUDGET = Budget(0.03, name="soak")
KEYS = Budget(0.015, per="key", name="soak")
MESSAGES = [{"role": "user", "content": "Hello"}]


class Logged(ValkeyState):
    """Prints what is granted and what is settled."""

    async def run_async(self, command: Command) -> Acquired | None:
        if not isinstance(command, Acquire):
            self.show("settle", command.id, command.amounts)
        result = await super().run_async(command)
        if isinstance(command, Acquire) and isinstance(result, Granted):
            self.show("grant", command.id, command.candidates[result.index].amounts)
        elif isinstance(result, Refused):
            self.show("refuse", command.id, None)
        return result

    def show(self, kind: str, name: str, amounts: Any) -> None:
        print(json.dumps([kind, name, amounts]), flush=True)


async def main(url: str, valkey: str, prefix: str, seed: int, calls: int, path: str) -> None:
    draw = random.Random(seed)
    deployments = [
        Deployment("gpt-4o", base_url=f"{url}/{path}/{name}", api_key="sk", name=f"{path}-{name}")
        for name in ("a", "b")
    ]
    router = Router({"fast": deployments}, cooldown=0.05)
    slots = asyncio.Semaphore(CONCURRENCY)
    async with (
        Logged(valkey, prefix=prefix) as state,
        AsyncLLMClient(
            router=router,
            budgets=[BUDGET, KEYS],
            state=state,
            timeout=0.2 if path == "mix" else 30,
            deadline=1.5 if path == "mix" else 2.5,
            max_retries=2,
        ) as client,
    ):

        async def call(number: int) -> None:
            given: dict[str, Any] = {"model": "fast", "max_tokens": 50}
            key, seconds = f"key-{number % 3}", draw.choice([30.0, 30.0, 30.0, 0.02])
            async with slots:
                with contextlib.suppress(LLMError, TimeoutError):
                    async with asyncio.timeout(seconds):
                        if draw.random() < 0.5:
                            await client.generate(MESSAGES, budget_key=key, **given)
                            return
                        async with client.stream(MESSAGES, budget_key=key, **given) as stream:
                            async for _ in stream:
                                if draw.random() < 0.2:
                                    break

        await asyncio.gather(*map(call, range(calls)))


if __name__ == "__main__":
    logging.getLogger("coreason_client.llm").setLevel(logging.CRITICAL)
    _call_gate._EXPIRY_ALLOWANCE = 0.5
    load_prices().result()
    target, store, name, number, count, where = sys.argv[1:]
    asyncio.run(main(target, store, name, int(number), int(count), where))
