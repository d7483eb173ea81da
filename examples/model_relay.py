"""An agent that passes the conversation on to a model, and its answer back, piece by piece.

    LLM_API_KEY=… coreason serve examples.model_relay:agent
    coreason chat --url http://127.0.0.1:8000 "Hello."

Readers get what a plain relay cannot give them: the answer is in the log, so they can lose their
connection and resume. `coreason_client.agents.llm.llm_agent` is the ready-made form of this.
"""

from coreason_client import AsyncLLMClient, LLMError
from coreason_client.server import AgentStream, ServiceRequest

SYSTEM = {"role": "system", "content": "You are a librarian. Answer in one sentence."}


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    """Answer as a librarian."""
    history = await stream.history()
    earlier = [
        {"role": "user" if message.role == "user" else "assistant", "content": message.text}
        for message in history
    ]
    messages = [SYSTEM, *earlier, {"role": "user", "content": stream.question}]
    async with AsyncLLMClient.from_env() as client:
        try:
            async with client.stream(messages) as answer:
                async for text in answer.text():
                    await stream.write(text)
        except LLMError:
            # The message may name your account: readers get a code, your log has the rest.
            await stream.fail("model_failed", "The model did not answer.")
