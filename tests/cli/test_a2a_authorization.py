"""A task that waits for an authorization: what the command shows, and how it continues."""

import re
from collections.abc import Iterator

import pytest

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running

from .command import run_a2a

QUESTION = "Sign in at https://example.com/login."


async def book(request: ServiceRequest, stream: AgentStream) -> None:
    """Books flights."""
    if stream.question == "Done.":
        await stream.write("Booked.")
    else:
        await stream.ask(QUESTION, auth=True)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of an agent."""
    with running(AgentApp(book, a2a=True)) as server:
        yield server.url


@pytest.mark.parametrize("verb", ["send", "stream"])
def test_the_command_says_how_to_continue(url: str, verb: str) -> None:
    code, out, err = run_a2a(verb, url, "Book.")
    assert (code, out) == (0, f"{QUESTION}\n")
    assert "auth-required\nthe task waits until you have signed in; to watch it: coreason" in err
    found = re.search(rf"\nto answer: coreason a2a {verb} \S+ --task (\S+) --context \S+\n", err)
    assert found is not None
    code, out, _ = run_a2a(verb, url, "--task", found[1], "Done.")
    assert (code, out) == (0, "Booked.\n")
    _, listed, _ = run_a2a("list", url, "--state", "auth-required")
    assert found[1] not in listed


@pytest.mark.parametrize("token", [[], ["--token", "wrong"]])
def test_a_refused_token_names_its_option(token: list[str]) -> None:
    with running(AgentApp(book, a2a=True, api_keys=["key-1"])) as server:
        code, out, err = run_a2a("send", server.url, "Book.", *token)
    assert (code, out) == (1, "")
    assert err.endswith(": set the token of the agent with --token or COREASON_A2A_TOKEN\n")
    assert err.count("\n") == 1
