"""The access log has the names of a query's parameters, and none of their values."""

import logging

import httpx2
import pytest

from coreason_client.server import AgentApp, create_ticket, running
from coreason_client.server.observe._log_lines import without_query_values
from tests.each import each

from ..peer import LIMIT

SECRET = "s" * 32


@each(
    ("target", "logged"),
    [
        ("/health", "/health"),
        ("/health?", "/health?"),
        ("/assist?ticket=abc", "/assist?ticket=***"),
        ("/tasks?pageSize=3&access_token=a%3Db=c", "/tasks?pageSize=***&access_token=***"),
        ("/assist?abc", "/assist?***"),  # it may be a value without a name
        ("/assist?a=1&&=b", "/assist?a=***&***&=***"),
    ],
)
def test_only_names_are_logged(target: str, logged: str) -> None:
    assert without_query_values(target) == logged


async def hello(request: object) -> str:
    return "hello"


def test_a_ticket_in_a_query_is_not_in_the_access_log(caplog: pytest.LogCaptureFixture) -> None:
    ticket = create_ticket(SECRET, "ann")
    app = AgentApp(hello, ticket_secrets=[SECRET])
    with (
        caplog.at_level(logging.INFO, "uvicorn.access"),
        running(app, log_level="info", log_config=None) as server,
    ):
        httpx2.get(f"{server.url}/health?ticket={ticket}", timeout=LIMIT)
    lines = [record for record in caplog.records if record.name == "uvicorn.access"]
    assert [line.getMessage().split('"')[1] for line in lines] == [
        "GET /health?ticket=*** HTTP/1.1"
    ]
    assert ticket not in caplog.text
