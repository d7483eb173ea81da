"""Asks both APIs with the models of pydantic-ai, and prints what it got as JSON.

Arguments: the URL of the API, a key, the model and the question.
"""

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

# It is not installed beside the type checker.
Agent: Any = import_module("pydantic_ai").Agent
models: Any = import_module("pydantic_ai.models.openai")
providers: Any = import_module("pydantic_ai.providers.openai")


async def ask(kind: str, api: str, key: str, model: str, question: str) -> dict[str, Any]:
    provider = providers.OpenAIProvider(base_url=api, api_key=key)
    agent = Agent(getattr(models, kind)(model, provider=provider))
    whole = await agent.run(question)
    async with agent.run_stream(question) as streamed:
        pieces = [piece async for piece in streamed.stream_text(delta=True, debounce_by=None)]
        usage = streamed.usage
    parts = whole.all_messages()[-1].parts
    second = await agent.run("History", message_history=whole.all_messages())
    return {
        "output": whole.output,
        "texts": "".join(part.content for part in parts if part.part_kind == "text"),
        "parts": [part.part_kind for part in parts],
        "pieces": "".join(pieces),
        "usage": [usage.input_tokens, usage.output_tokens],
        "history": second.output,
    }


async def main(*args: str) -> dict[str, Any]:
    kinds = ("OpenAIChatModel", "OpenAIResponsesModel")
    return {kind: await ask(kind, *args) for kind in kinds}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
