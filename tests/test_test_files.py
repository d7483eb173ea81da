"""Every module has a test file of its name, except for the shells that are listed here.

A shell does I/O around the rules of other modules, or only collects names. It is tested through
real servers, or through the modules that use it.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "coreason_client"

# The modules without a test file, relative to `SOURCE`, each with a reason. Of a sync and an async
# module that belong together, the async one is listed.
SHELLS = {
    "server/log/valkey/_quota_scripts.py": "scripts: tests/server/log/test_quota_store.py",
    "testing/contracts/_cap_peer.py": "HTTP: tests/testing/test_server_contract.py",
    "testing/contracts/_log_durable.py": "tests: tests/testing/test_log_contract.py",
    "testing/contracts/_log_lifetime.py": "tests: tests/testing/test_log_contract.py",
    "testing/contracts/_log_positions.py": "tests: tests/testing/test_log_contract.py",
    "testing/contracts/_log_streams.py": "tests: tests/testing/test_log_contract.py",
    "testing/contracts/_log_tests.py": "runs them: tests/testing/test_log_contract.py",
    "__main__.py": "the entry point of the command: tests/cli runs it",
    "_closing_async.py": "two methods that all streams inherit: tests/cap/test_client.py",
    "_http/_async.py": "sends through httpx2: tests/http/test_senders.py",
    "_http/_asyncio.py": "sockets on asyncio: tests/http/test_backend.py",
    "_http/_merging_async.py": "sockets around `_merge`: tests/http/test_backend.py",
    "_http/_close_stream.py": "shuts down a socket: tests/http/test_senders.py",
    "_version.py": "one constant",
    "a2a/_run_calls_async.py": "awaits what a flow returns: tests/a2a/test_calls.py",
    "a2a/_streams_async.py": "drives a machine: tests/a2a/test_client.py",
    "a2a/_transport_async.py": "sends what `_transport_base` makes: tests/a2a/test_calls.py",
    "a2a/_transport_base.py": "joins route, hooks and options: tests/a2a/test_calls.py",
    "a2a/streams.py": "collects names",
    "a2a/transport.py": "collects names",
    "cap/_streams_async.py": "drives a machine: tests/cap/test_client.py",
    "cap/streams.py": "collects names",
    "cli/a2a/_answers.py": "runs an operation and shows it: tests/cli/test_a2a_messages.py",
    "cli/a2a/_groups.py": "the groups of commands: tests/cli/test_a2a.py",
    "cli/a2a/_commands.py": "registers commands: tests/cli/test_a2a.py",
    "cli/a2a/_connect.py": "makes a client from options: tests/cli/test_a2a.py",
    "cli/a2a/_show.py": "joins presenter, files and errors: tests/cli/test_a2a_messages.py",
    "cli/_agent_child.py": "runs in a child process: tests/cli/test_agent_process.py",
    "cli/_chat_service.py": "starts servers and clients: tests/cli/test_chat.py",
    "cli/llm/_ask.py": "the options of a command: tests/cli/test_llm.py",
    "cli/llm/_exchange.py": "asks and shows the answer: tests/cli/test_llm.py",
    "cli/llm/_question_answer.py": "from options to a call: tests/cli/test_llm_history.py",
    "cli/_llm_client.py": "makes a client from options: tests/cli/test_llm.py",
    "inspector/_connection.py": "closes a socket: tests/inspector/test_cuttable.py",
    "llm/_default_model.py": "one constant",
    "llm/router/_commands.py": "plain data: tests/llm/router/test_rules.py",
    "llm/_streams_async.py": "drives a machine: tests/llm/test_client.py",
    "llm/streams.py": "collects names",
    "llm/tools/_model_client.py": "types",
    "llm/tools/run_streams.py": "collects names",
    "llm/tools/tool.py": "a value: tests/llm/tools/test_toolset.py",
    "server/_packet_names.py": "constants",
    "server/a2a/_caller.py": "who calls: tests/server/a2a/conformance",
    "server/a2a/_event_response.py": "sends events: tests/server/a2a/conformance",
    "server/a2a/_states.py": "constants",
    "server/a2a/_turn_starter.py": "begins turns: tests/server/a2a/test_service.py",
    "server/a2a/_push/_hook.py": "a server without push: tests/server/a2a/test_push_service.py",
    "server/log/_memory_deliveries.py": "the contract: tests/server/log/test_deliveries.py",
    "server/log/_sql_deliveries.py": "the contract: tests/server/log/test_deliveries.py",
    "server/log/valkey/_delivery_store.py": "the contract: tests/server/log/test_deliveries.py",
    "server/engine/_durable_writer.py": "applies `durable`: tests/server/durable/test_steps.py",
    "server/engine/_end_errors.py": "constants",
    "server/engine/_step_context.py": "context variables: tests/server/durable/test_steps.py",
    "server/engine/_runtime.py": "joins the parts of the engine: tests/server/test_lifecycle.py",
    "server/log/_memory_tasks.py": "a store of tasks: tests/server/log/test_tasks.py",
    "server/log/_sql_tasks.py": "a store of tasks: tests/server/log/test_tasks.py",
    "server/log/_task_waiters.py": "wakes who waits: tests/server/log/test_tasks.py",
    "server/log/valkey/_log.py": "joins the parts of the log: tests/server/log/test_valkey.py",
    "server/log/valkey/_session.py": "joins the parts of the log: tests/server/log/test_valkey.py",
    "server/log/valkey/_store.py": "connections: tests/server/log/test_valkey_silence.py",
    "server/log/valkey/_task_scripts.py": "scripts of tasks: tests/server/log/test_tasks.py",
    "server/log/valkey/_task_store.py": "a store of tasks: tests/server/log/test_tasks.py",
    "server/process/_uvicorn.py": "runs uvicorn: tests/server/test_drain.py",
    "server/sync_stream.py": "passes calls to an event loop: tests/server/test_plain_agents.py",
    "testing/_chaos_pipe.py": "a connection of a proxy: tests/testing/test_chaos_proxy.py",
    "testing/_recording/_exchange.py": "plain data: tests/testing/test_recording_file.py",
    "testing/_recording/_upstream.py": "passes requests on: tests/testing/test_record.py",
    "testing/faults/__main__.py": "serves programs in other languages: tests/js",
    "testing/faults/_connection.py": "a part of `FaultServer`: tests/faults/test_faults.py",
    "testing/faults/_contents.py": "a part of `FaultServer`: tests/faults/test_faults.py",
    "testing/faults/_exchange.py": "a part of `FaultServer`: tests/faults/test_faults.py",
    "testing/faults/_lost_connections.py": "a part of `FaultServer`: tests/faults/test_faults.py",
    "testing/faults/_server.py": "a part of `FaultServer`: tests/faults/test_faults.py",
}


def pair(module: str) -> str:
    """Return the async module that a sync module is generated from, otherwise the module."""
    path = Path(module)
    if path.stem.endswith("_sync"):
        return path.with_stem(f"{path.stem.removesuffix('_sync')}_async").as_posix()
    return module


def wanted(module: str) -> set[str]:
    """Return the names of the files that count as the test file of a module."""
    path = Path(module)
    stem, package = path.stem.lstrip("_"), path.parent.name.lstrip("_")
    shared = "client" if stem == "aclient" else stem.removesuffix("_async").removesuffix("_sync")
    prefixes = ("", f"{package}_") if package else ("",)
    return {f"test_{prefix}{part}.py" for part in (stem, shared) for prefix in prefixes}


def problems(
    modules: Collection[str], tests: Collection[str], shells: Mapping[str, str]
) -> list[str]:
    """Return a message for each module without a test file, and for each wrong entry."""
    tested = {module for module in modules if wanted(module).intersection(tests)}
    return [
        *(
            f"{module} has no test file: add one of {', '.join(sorted(wanted(module)))}, or list "
            "the module in SHELLS with a reason"
            for module in modules
            if module not in tested and pair(module) not in shells
        ),
        *(
            f"{module} is listed in SHELLS, but {why}: remove the entry"
            for why, listed in (
                ("there is no such module", shells.keys() - set(modules)),
                ("has a test file", shells.keys() & tested),
            )
            for module in sorted(listed)
        ),
    ]


def all_modules() -> list[str]:
    files = sorted(SOURCE.rglob("*.py"))
    return [file.relative_to(SOURCE).as_posix() for file in files if file.stem != "__init__"]


def test_every_module_has_a_test_file_or_is_listed_as_a_shell() -> None:
    tests = {file.name for file in TESTS.rglob("test_*.py")}
    assert not (found := problems(all_modules(), tests, SHELLS)), "\n" + "\n".join(found)


def test_every_shell_has_a_reason_and_the_tests_that_it_names_exist() -> None:
    for reason in SHELLS.values():
        assert reason
        named = [word for word in reason.split() if word.startswith("tests/")]
        assert [word for word in named if not (TESTS.parent / word).exists()] == []


@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("a2a/_rest.py", "test_rest.py"),
        ("cap/position.py", "test_position.py"),
        ("server/log/valkey/_entries.py", "test_valkey_entries.py"),
        ("_http/_build.py", "test_http_build.py"),
        ("_drive_async.py", "test_drive.py"),
        ("_drive_sync.py", "test_drive.py"),
        ("cap/aclient.py", "test_client.py"),
    ],
)
def test_a_file_of_the_same_name_is_the_test_of_a_module(module: str, test: str) -> None:
    assert problems([module], [test], {}) == []
    [message] = problems([module], ["test_other.py"], {})
    assert message.startswith(f"{module} has no test file: add one of test_")


def test_a_shell_and_its_sync_module_need_no_test_file() -> None:
    modules = ["_closing_async.py", "_closing_sync.py", "_version.py"]
    assert problems(modules, [], {"_closing_async.py": "", "_version.py": ""}) == []


def test_an_entry_that_is_not_needed_is_a_problem() -> None:
    shells = {"gone.py": "", "_tested.py": ""}
    assert [
        line.split(":")[0] for line in problems(["_tested.py"], ["test_tested.py"], shells)
    ] == [
        "gone.py is listed in SHELLS, but there is no such module",
        "_tested.py is listed in SHELLS, but has a test file",
    ]
