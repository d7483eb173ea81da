"""Asks both APIs with litellm, and prints what it got as JSON.

Arguments: the URL of the API, a key, the model and the question.
"""

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

litellm: Any = import_module("litellm")  # its types are incomplete
litellm.suppress_debug_info = True


def called(call: Any, **options: Any) -> list[Any]:
    """Return the class of the error of a call, and its status."""
    try:
        call(**options)
    except Exception as error:  # noqa: BLE001 - its class is what the test looks at
        return [type(error).__name__, getattr(error, "status_code", None)]
    return ["no error"]


async def in_chunks(options: Any) -> str:
    stream = await litellm.acompletion(**options, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


def main(api: str, key: str, model: str, question: str) -> dict[str, Any]:
    where = {"api_base": api, "api_key": key, "timeout": 10, "num_retries": 0}
    asked = {"model": f"openai/{model}", **where}
    chat = {**asked, "messages": [{"role": "user", "content": question}]}
    whole = litellm.completion(**chat)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(litellm.completion(**chat, **options))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    response = litellm.responses(**asked, input=question)
    events = list(litellm.responses(**asked, input=question, stream=True))
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    return {
        "chat": whole.choices[0].message.content,
        "reasoning": whole.choices[0].message.reasoning_content,
        "usage": [whole.usage.prompt_tokens, whole.usage.completion_tokens],
        "finish_reason": whole.choices[0].finish_reason,
        "chunks": "".join(delta.content or "" for delta in deltas),
        "chunks of reasoning": "".join(
            getattr(delta, "reasoning_content", None) or "" for delta in deltas
        ),
        "usage of the stream": [
            chunk.usage.total_tokens for chunk in chunks if getattr(chunk, "usage", None)
        ],
        "async": asyncio.run(in_chunks(chat)),
        "response": "".join(
            part.text for item in response.output if item.type == "message" for part in item.content
        ),
        "pieces": "".join(pieces),
        "last event": events[-1].type,
        "unknown model": called(litellm.completion, **{**chat, "model": "openai/unknown"}),
        "wrong key": called(litellm.completion, **{**chat, "api_key": "wrong"}),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
