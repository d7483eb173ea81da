"""The examples of docs/a2a-server.md do what the page says."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coreason_client import A2AClient
from coreason_client.a2a import GrpcTransport, Message, Part, Role, TaskState
from coreason_client.server import running

PAGE = Path(__file__).parents[3] / "docs" / "a2a-server.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
CARD = "/.well-known/agent-card.json"


def echoes(url: str) -> None:
    with A2AClient.connect(url) as client:
        assert client.send_message("Hello").text == "You said: Hello"
    card = httpx2.get(f"{url}{CARD}").json()
    assert (card["name"], card["description"]) == ("echo", "Repeats what you say.")


def has_its_card(url: str) -> None:
    card = httpx2.get(f"{url}{CARD}").json()
    assert card["name"] == "Translator"
    assert card["version"]
    assert {one["url"] for one in card["supportedInterfaces"]} == {"https://agent.example.com/a2a"}
    message = {"messageId": "m", "role": "ROLE_USER"}
    refused = httpx2.post(
        f"{url}/a2a/message:send",
        json={"message": {**message, "parts": [{"raw": "AA==", "mediaType": "image/png"}]}},
        headers={"A2A-Version": "1.0"},
    )
    assert "CONTENT_TYPE_NOT_SUPPORTED" in refused.text


def asks(url: str) -> None:
    with A2AClient.connect(url) as client:
        for colour, state, text in (
            ("blue", TaskState.COMPLETED, "The door is blue."),
            ("pink", TaskState.REJECTED, "I do not paint pink."),
        ):
            asked: Any = client.send_message(Message(role=Role.USER, parts=[Part(text="Paint.")]))
            assert asked.status.state is TaskState.INPUT_REQUIRED
            assert asked.status.text == "Which colour?"
            answered: Any = client.send_message(colour, reply_to=asked)
            assert (answered.status.state, answered.id) == (state, asked.id)
            assert text in (answered.text, answered.status.text)


def asks_for_an_authorization(url: str, signed_in: set[str]) -> None:
    with A2AClient.connect(url) as client:
        asked: Any = client.send_message("Book a flight.")
        assert asked.status.state is TaskState.AUTH_REQUIRED
        assert "https://flights.example/login" in asked.status.text
        signed_in.add("anybody")
        booked: Any = client.send_message("Done.", reply_to=asked)
        assert (booked.id, booked.text) == (asked.id, "Your flight is booked.")


def measures(url: str) -> None:
    with A2AClient.connect(url) as client:
        parts = [Part(text="Measure."), Part.from_bytes(b"1234567", filename="a.bin")]
        task: Any = client.send_message(Message(role=Role.USER, parts=parts))
        answer, sizes, report = task.artifacts
        assert answer.parts[0].text == "1 files."
        assert sizes.parts[0].data == {"sizes": [7]}
        assert report.parts[0].filename == "report.csv"
        assert report.parts[0].media_type == "text/csv"
        assert report.parts[1].url == "https://x.example/"


def is_mounted(url: str) -> None:
    with A2AClient.connect(f"{url}/agent") as client:
        assert client.send_message("Hello").text == "You said: Hello"


def has_grpc(url: str) -> None:
    interfaces = httpx2.get(f"{url}{CARD}").json()["supportedInterfaces"]
    [address] = {one["url"] for one in interfaces if one["protocolBinding"] == "GRPC"}
    with A2AClient.with_transport(GrpcTransport(address)) as client:
        assert client.send_message("Hello").text == "You said: Hello"


CHECKS: list[Callable[..., None]] = [
    echoes,
    has_its_card,
    asks,
    asks_for_an_authorization,
    measures,
    is_mounted,
    has_grpc,
]


def test_every_example_is_checked() -> None:
    assert len(BLOCKS) == len(CHECKS)


@pytest.mark.parametrize("number", range(len(CHECKS)), ids=[check.__name__ for check in CHECKS])
def test_an_example_does_what_the_page_says(number: int) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    code = BLOCKS[number].replace(":50051", ":0")  # another test may use the port
    exec(compile(code, f"docs/a2a-server.md, example {number + 1}", "exec"), names)
    with running(names["app"]) as server:
        given = [names["signed_in"]] if "signed_in" in names else []
        CHECKS[number](server.url, *given)
