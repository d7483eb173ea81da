"""The errors of a command contain no secret, whatever the agent quotes."""

import pytest

from coreason_client import ArgumentError
from coreason_client.cli.a2a._agent import redacting
from coreason_client.cli.exits import ExitCode, Failure
from tests.a2a.loopback import Answer, Seen, as_json, serve

from .command import coreason_here, run_a2a

OPTIONS = ["--header", "X-Tenant: blue-secret", "--token", "tell-no-one"]


def quote_as_error(seen: Seen) -> Answer | None:
    if not seen.body:
        return None
    error = {"code": -32603, "message": f"I got {seen.headers}"}
    return as_json({"jsonrpc": "2.0", "id": seen.json["id"], "error": error})


def quote_as_status(seen: Seen) -> Answer | None:
    if not seen.body:
        return None
    said = {"messageId": "1", "role": "ROLE_AGENT", "parts": [{"text": f"I got {seen.headers}"}]}
    task = {"id": "t", "status": {"state": "TASK_STATE_FAILED", "message": said}}
    return as_json({"jsonrpc": "2.0", "id": seen.json["id"], "result": {"task": task}})


@pytest.mark.parametrize("rule", [quote_as_error, quote_as_status])
def test_an_agent_that_quotes_the_secrets_in_an_error(rule: object) -> None:
    with serve() as agent:
        agent.rules.append(rule)  # type: ignore[arg-type]
        code, out, err = run_a2a("send", agent.url, "hi", *OPTIONS)
    assert (code, out) == (1, "")
    assert "'x-tenant': '***'" in err
    assert "blue-secret" not in err
    assert "tell-no-one" not in err


def test_also_in_a_conversation() -> None:
    with serve() as agent:
        agent.rules.append(quote_as_error)
        done = coreason_here("a2a", "chat", agent.url, *OPTIONS, stdin="hi\n")
    assert done.returncode == 0
    assert "error: the agent answered: I got" in done.stderr
    assert "'x-tenant': '***'" in done.stderr
    assert "tell-no-one" not in done.stderr


def test_an_error_without_a_secret_is_unchanged() -> None:
    error = ArgumentError("--x", "must be y", 1)
    with pytest.raises(ArgumentError) as caught, redacting("a-secret", None):
        raise error
    assert caught.value is error


def test_an_error_with_a_secret_keeps_its_exit_code() -> None:
    with pytest.raises(Failure) as caught, redacting("a-secret"):
        raise ArgumentError("--x", "must not be a-secret")
    assert str(caught.value) == "--x must not be ***"
    assert caught.value.code is ExitCode.USAGE
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
