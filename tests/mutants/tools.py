"""Mutants of the tool loop of the AI client."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_TOOLS = "coreason_client/llm/tools"
_MACHINE = f"{_TOOLS}/_run_machine.py"
_MACHINE_TESTS = ("tests/llm/tools/test_run_machine.py",)
_RUN_TESTS = ("tests/llm/tools/test_tools_run.py",)
_DURABLE_TESTS = ("tests/llm/tools/test_durable_run.py",)

MUTANTS = (
    Mutant(
        "an MCP server that has ended is not opened again",
        f"{_TOOLS}/_mcp_connection.py",
        "if not self._closed and (self._client is None or self._task.done()):",
        "if False:",
        ("tests/llm/tools/test_mcp.py",),
    ),
    Mutant(
        "the timeout of a call runs while the user is asked",
        f"{_TOOLS}/_mcp_connection.py",
        "if done or not (self._open_questions or answered != self._answered_questions):",
        "if True:",
        ("tests/llm/tools/test_mcp.py",),
    ),
    Mutant(
        "a client without a callback announces that it can ask the user",
        f"{_TOOLS}/_mcp_connection.py",
        "callback = None if self._address.on_elicitation is None else self._elicit",
        "callback = self._elicit",
        ("tests/llm/tools/test_mcp.py",),
    ),
    Mutant(
        "an error of the function that asks the user declines the question",
        f"{_TOOLS}/_mcp_connection.py",
        'return ElicitResult(action="cancel")',
        'return ElicitResult(action="decline")',
        ("tests/llm/tools/test_mcp.py",),
    ),
    Mutant(
        "a URL of an MCP server is passed to the function that asks the user",
        f"{_TOOLS}/_mcp_connection.py",
        'if request.mode != "form":',
        "if False:",
        ("tests/llm/tools/test_mcp.py",),
    ),
    Mutant(
        "a run has no limits",
        _MACHINE,
        "        self._check_limits()\n        self.turns += 1\n",
        "        self.turns += 1\n",
        _MACHINE_TESTS,
    ),
    Mutant(
        "broken attempts do not count against the limits of a run",
        _MACHINE,
        'response.get("spent") or response["usage"]',
        'response["usage"]',
        _MACHINE_TESTS,
    ),
    Mutant(
        "a call that was cut off is executed",
        _MACHINE,
        'len(calls) - 1 if data.get("truncated") else None',
        "None",
        _MACHINE_TESTS,
    ),
    Mutant(
        "a call with invalid arguments is executed",
        _MACHINE,
        "_CUT_OFF if index == cut_off else _refusal(call)",
        "_CUT_OFF if index == cut_off else None",
        _MACHINE_TESTS,
    ),
    Mutant(
        "a tool that fails has a span without an error",
        f"{_TOOLS}/_perform.py",
        "        span.set_error(output.error_type)\n",
        "        pass\n",
        ("tests/llm/observe/test_run_spans.py",),
    ),
    Mutant(
        "a forced choice of tools is forced for ever",
        _MACHINE,
        '            choice = "auto"\n',
        "            pass\n",
        _MACHINE_TESTS,
    ),
    Mutant(
        "a call that was interrupted has no result",
        _MACHINE,
        "                self.record_output(requested.index, error_output(_INTERRUPTED), 0.0)\n",
        "                continue\n",
        _MACHINE_TESTS,
    ),
    Mutant(
        "a tool may fail for ever",
        _MACHINE,
        "            self.stop(_tool_error(finished, failures))\n",
        "            pass\n",
        _MACHINE_TESTS,
    ),
    Mutant(
        "a success of a tool does not end its row of errors",
        _MACHINE,
        "            self._errors.pop(finished.name, None)\n",
        "",
        _MACHINE_TESTS,
    ),
    Mutant(
        "an error of a run has no conversation",
        _MACHINE,
        "        error.conversation = self.messages\n",
        "",
        _MACHINE_TESTS,
    ),
    Mutant(
        "a price that is not known is no obstacle for max_cost",
        f"{_TOOLS}/_run_machine.py",
        "(cost is None or cost >= self.max_cost)",
        "cost is not None and cost >= self.max_cost",
        _MACHINE_TESTS,
    ),
    Mutant(
        "calls that remain are not cancelled",
        f"{_TOOLS}/_steps_async.py",
        "    for task in tasks:\n        task.cancel()\n",
        "    for task in tasks:\n        pass\n",
        _RUN_TESTS,
    ),
    Mutant(
        "plain functions block the event loop",
        f"{_TOOLS}/_steps_async.py",
        'await run_in_thread(function, f"coreason-tool-{tool.name}")',
        "function()",
        _RUN_TESTS,
    ),
    Mutant(
        "an error of a tool shows the key of the client",
        f"{_TOOLS}/_output.py",
        '        message = message.replace(secret, "***")\n',
        "        pass\n",
        ("tests/llm/tools/test_output.py",),
    ),
    Mutant(
        "a tool of a durable agent is called again after a restart",
        f"{_TOOLS}/_steps_async.py",
        "        if self._stream is None:\n            return self._timed(tool, requested)\n",
        "        return self._timed(tool, requested)\n",
        _DURABLE_TESTS,
    ),
    Mutant(
        "the answer of a model is requested again after a restart",
        f"{_TOOLS}/_steps_async.py",
        "            received = self._journaled(received, stream)\n",
        "            pass\n",
        _DURABLE_TESTS,
    ),
    Mutant(
        "the results of a durable agent come in any order",
        f"{_TOOLS}/_steps_async.py",
        "        in_order = self._stream is not None\n",
        "        in_order = False\n",
        ("tests/llm/tools/test_durable_run.py", "tests/agents/test_tool_run.py"),
    ),
    Mutant(
        "an abort of a tool is forgotten in the journal",
        f"{_TOOLS}/_output.py",
        '"abort": None if output.abort is None else str(output.abort),',
        '"abort": None,',
        ("tests/llm/tools/test_tools_journal.py",),
    ),
    Mutant(
        "the tools of servers may have the same name",
        f"{_TOOLS}/tool.py",
        "    while candidate in used:\n",
        "    while False:\n",
        ("tests/llm/tools/test_names.py",),
    ),
    Mutant(
        "structured content is sent twice",
        f"{_TOOLS}/_mcp_connection.py",
        "if structured is not None and not _repeats(texts, structured):",
        "if structured is not None:",
        ("tests/llm/tools/test_mcp_content.py",),
    ),
    Mutant(
        "a run has one turn more",
        "coreason_client/llm/tools",
        "if turns >= self.max_turns:",
        "if turns > self.max_turns:",
        ("tests/llm/tools/test_run_limits.py", "tests/llm/tools/test_run_machine.py"),
    ),
    Mutant(
        "a run of an unknown cost is within its limit",
        "coreason_client/llm/tools",
        "(cost is None or cost >= self.max_cost)",
        "(cost is not None and cost >= self.max_cost)",
        ("tests/llm/tools/test_run_limits.py", "tests/llm/tools/test_run_machine.py"),
    ),
    Mutant(
        "a run may use more tokens",
        "coreason_client/llm/tools",
        "tokens >= self.max_tokens_total:",
        "tokens > self.max_tokens_total:",
        ("tests/llm/tools/test_run_limits.py", "tests/llm/tools/test_run_machine.py"),
    ),
    Mutant(
        "True is a number of turns",
        "coreason_client/llm/tools",
        "if isinstance(value, bool) or not isinstance(value, int) or value < 1:",
        "if not isinstance(value, int) or value < 1:",
        ("tests/llm/tools/test_run_limits.py", "tests/llm/tools/test_run_machine.py"),
    ),
)
