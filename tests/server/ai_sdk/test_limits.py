"""Limits and a store that may forget: a page is refused, and never gets another answer's chunks."""

from uuid import UUID

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog, ServiceRequest, running

from .serving import body, frames, peer, user

CHAT = "a-chat-with-a-long-id"


class Forgetful(MemoryStreamLog):
    """A log whose store may lose what it has acknowledged."""

    may_forget = True


async def words(request: ServiceRequest, stream: AgentStream) -> None:
    for word in ("one ", "two ", "three"):
        await stream.write(word)


def test_a_chat_is_looked_up_within_the_rate_of_its_principal() -> None:
    app = AgentApp(words, ai_sdk=True, max_requests_per_minute=2)
    with running(app) as server, peer(server.url, None) as page:
        path = f"/api/chat/{CHAT}/stream"
        assert [page.get(path).status_code for _ in range(5)] == [204] * 5  # nothing was read
        for number in range(2):
            asked = page.post("/api/chat", json=body(f"{CHAT}-{number}", user("Hi")))
            assert asked.status_code == 200
        for refused in (page.get(path), page.delete(path)):
            assert refused.status_code == 429
            assert refused.json()["type"].endswith("too-many-requests")
            assert int(refused.headers["retry-after"]) <= 60


def test_a_number_beyond_the_end_is_not_the_end_if_the_store_may_have_lost_chunks() -> None:
    for log, status in ((MemoryStreamLog(), 200), (Forgetful(), 410)):
        app = AgentApp(words, ai_sdk=True, log=log)
        with running(app) as server, peer(server.url, None) as page:
            whole = page.post("/api/chat", json=body(CHAT, user("Hi")))
            run = whole.headers["x-workflow-run-id"]
            UUID(run.removeprefix("run_"))
            count = len(frames(whole.content)) - 1  # without the end mark
            path = f"/api/chat/{run}/stream?startIndex="
            assert page.get(f"{path}2").status_code == 200
            beyond = page.get(f"{path}{count + 5}")
            assert beyond.status_code == status
            if status == 200:
                assert b'"type":"finish"' in beyond.content
