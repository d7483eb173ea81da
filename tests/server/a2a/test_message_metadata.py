"""The metadata of the message that an agent answers."""

from collections.abc import Iterator

import httpx2
import pytest

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running

VERSION = {"A2A-Version": "1.0"}


class Remembering:
    """An agent that keeps its requests, and asks for more as long as it is told to."""

    def __init__(self) -> None:
        self.requests: list[ServiceRequest] = []

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        self.requests.append(request)
        if stream.question == "ask":
            await stream.ask("Where?")


@pytest.fixture
def agent() -> Iterator[tuple[Remembering, httpx2.Client]]:
    agent = Remembering()
    with (
        running(AgentApp(agent, a2a=True)) as server,
        httpx2.Client(base_url=f"{server.url}/a2a", headers=VERSION) as http,
    ):
        yield agent, http


def test_a_message_without_a_context_belongs_to_the_session_of_its_task(
    agent: tuple[Remembering, httpx2.Client],
) -> None:
    remembering, http = agent
    first = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "ask"}]}
    task = http.post("/message:send", json={"message": first}).json()["task"]
    second = {**first, "messageId": "m2", "parts": [{"text": "here"}], "taskId": task["id"]}
    params = {"message": {**second, "metadata": {"own": 1}}, "metadata": {"request": 2}}
    assert http.post("/message:send", json=params).json()["task"]["id"] == task["id"]
    one, two = remembering.requests
    assert one.context.session_id == two.context.session_id == task["contextId"]
    assert one.payload.metadata == {"a2a": {"messageId": "m1", "taskId": task["id"]}}
    about = {"messageId": "m2", "taskId": task["id"], "metadata": {"own": 1}}
    answer = {"question_id": task["id"]}  # the id of a task is that of its first stream
    assert two.payload.metadata == {"request": 2, "answer": answer, "a2a": about}
