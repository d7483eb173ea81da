"""The graph that the server of LangGraph serves: a model that answers word by word."""

import asyncio
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

# The type checker does not have them.
models: Any = import_module("langchain_core.language_models.fake_chat_models")
graphs: Any = import_module("langgraph.graph")

ANSWER = "It is the capital of France: Paris on the Seine."
PAUSE = 0.02  # seconds between two words


class Model(models.GenericFakeChatModel):  # type: ignore[misc]
    """Pauses between two words, so that the connection can break while the graph is running."""

    async def _astream(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        async for chunk in super()._astream(*args, **options):
            await asyncio.sleep(PAUSE)
            yield chunk


async def answer(state: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [await Model(messages=iter([ANSWER])).ainvoke(state["messages"])]}


builder: Any = graphs.StateGraph(graphs.MessagesState)
builder.add_node("answer", answer)
builder.add_edge(graphs.START, "answer")
builder.add_edge("answer", graphs.END)
graph = builder.compile()
