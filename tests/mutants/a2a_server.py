"""Mutants of the A2A server: the gRPC binding, and tasks that wait for their user."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_TESTS = "tests/server/a2a"
_SUITE = f"{_TESTS}/conformance"


def _server(module: str, name: str, old: str, new: str, test: str) -> Mutant:
    return Mutant(name, f"coreason_client/server/a2a/{module}.py", old, new, (test,))


MUTANTS = (
    _server(
        "_operations",
        "a call on a shared log is answered before the replicas have the end",
        "sent.ended is not None and not self._runtime.log.shared",
        "sent.ended is not None",
        f"{_TESTS}/test_turn_log.py::test_a_call_on_a_shared_log_reads_it",
    ),
    _server(
        "_turn_log",
        "a call waits for ever for a turn that another process has taken",
        "            turn.end()\n",
        "            pass\n",
        f"{_TESTS}/test_turn_log.py",
    ),
    _server(
        "_grpc_server",
        "gRPC accepts every version",
        "check_version(call.version, headers.get(VERSION_HEADER))",
        "pass",
        f"{_SUITE}/test_conformance_versions.py::test_other_versions_are_refused",
    ),
    _server(
        "_grpc_server",
        "gRPC does not read the extensions of a client",
        "self._operations.used_extensions(extensions_in(metadata))",
        "self._operations.used_extensions([])",
        f"{_SUITE}/test_conformance_capabilities.py",
    ),
    _server(
        "_grpc_server",
        "the status of gRPC has no details",
        "((DETAILS_KEY, status.details),) if status.details else ()",
        "()",
        f"{_SUITE}/test_conformance_grpc.py",
    ),
    _server(
        "_fold",
        "an authorization is an ordinary question",
        'AUTH_REQUIRED: "TASK_STATE_AUTH_REQUIRED",',
        'AUTH_REQUIRED: "TASK_STATE_INPUT_REQUIRED",',
        f"{_TESTS}/test_fold.py",
    ),
    _server(
        "_turn_starter",
        "a task that waits for an authorization accepts no message",
        "if record.state not in INTERRUPTED:",
        'if record.state != "TASK_STATE_INPUT_REQUIRED":',
        f"{_TESTS}/test_task_stream.py",
    ),
    _server(
        "_operations",
        "a task that waits for an authorization is not cancelled",
        "if record.state in INTERRUPTED:",
        'if record.state == "TASK_STATE_INPUT_REQUIRED":',
        f"{_SUITE}/test_conformance_authorization.py::test_such_a_task_is_cancelled",
    ),
    Mutant(
        "waiting for a task does not end when it needs an authorization",
        "coreason_client/a2a/_client_base.py",
        "isinstance(event, Task | TaskStatusUpdateEvent) and event.status.is_interrupted",
        "False",
        ("tests/a2a/test_polling.py",),
    ),
    Mutant(
        "a task that waits for its user is kept for a day",
        "coreason_client/server/a2a",
        "_OPEN_RETENTION: Final = 7 * 86400.0",
        "_OPEN_RETENTION: Final = 86400.0",
        (f"{_TESTS}/test_operations.py",),
    ),
    Mutant(
        "a task that waits for its user is kept for a month",
        "coreason_client/server/a2a",
        "_OPEN_RETENTION: Final = 7 * 86400.0",
        "_OPEN_RETENTION: Final = 30 * 86400.0",
        (f"{_TESTS}/test_operations.py",),
    ),
    Mutant(
        "an answer that is a message has a task all the same",
        "coreason_client/server/a2a",
        "if record.state != NOT_LISTED:",
        "if True:",
        (f"{_TESTS}/test_task_states.py",),
    ),
    Mutant(
        "a wildcard for a kind of media type fits nothing",
        "coreason_client/server/a2a",
        '{plain, f"{kind}/*", "*/*"}',
        '{plain, "*/*"}',
        (f"{_TESTS}/test_incoming.py",),
    ),
    Mutant(
        "an agent that accepts every media type accepts none",
        "coreason_client/server/a2a",
        '{plain, f"{kind}/*", "*/*"}',
        '{plain, f"{kind}/*"}',
        (f"{_TESTS}/test_incoming.py",),
    ),
    Mutant(
        "a media type with parameters is refused",
        "coreason_client/server/a2a",
        'plain = media_type.partition(";")[0].strip().lower()',
        "plain = media_type.lower()",
        (f"{_TESTS}/test_incoming.py",),
    ),
    Mutant(
        "an agent without streams has them all the same",
        "coreason_client/server/a2a",
        "        if not self._streaming:\n",
        "        if False:\n",
        (f"{_SUITE}/test_conformance_capabilities.py",),
    ),
    Mutant(
        "the card always declares streams",
        "coreason_client/server/a2a",
        '"streaming": streaming,',
        '"streaming": True,',
        (f"{_SUITE}/test_conformance_capabilities.py",),
    ),
)
