"""Mutants of the command."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_CLI = "coreason_client/cli"
_EVENTS = f"{_CLI}/a2a/_events.py"
_EVENT_TESTS = ("tests/cli/test_a2a_events.py",)
_IDS = f"{_CLI}/a2a/_ids.py"
_IDS_TESTS = ("tests/cli/test_a2a_ids.py",)
_SAVED = f"{_CLI}/a2a/_files.py"
_SAVED_TESTS = ("tests/cli/test_a2a_saved_files.py",)
_WEBHOOKS = f"{_CLI}/a2a/_push.py"
_WEBHOOK_TESTS = ("tests/cli/test_a2a_webhooks.py",)
_KEYS = f"{_CLI}/serve/_secrets.py"
_KEY_TESTS = ("tests/cli/test_keys.py",)
_LOAD = f"{_CLI}/_load.py"
_LOAD_TESTS = ("tests/cli/test_load.py",)
_LOGS = f"{_CLI}/_logs.py"
_LOG_TESTS = ("tests/cli/test_logs.py",)
_PACKETS = f"{_CLI}/chat/_packets.py"
_PACKET_TESTS = ("tests/cli/test_packets.py",)
_EXITS = f"{_CLI}/exits.py"
_EXIT_TESTS = ("tests/cli/test_exits.py",)
_OUTPUT = f"{_CLI}/output"
_PAGE = f"{_OUTPUT}/_page.py"
_PAGE_TESTS = ("tests/cli/test_page.py",)
_PAINTER = f"{_OUTPUT}/_live.py"
_PAINTER_TESTS = ("tests/cli/test_painter.py",)
_PLAIN = f"{_OUTPUT}/_base.py"
_PLAIN_TESTS = ("tests/cli/test_plain.py",)
_SCREEN = f"{_OUTPUT}/_screen.py"
_SCREEN_TESTS = ("tests/cli/test_screen.py",)
_DRAWN_ROWS = f"{_OUTPUT}/_screen.py"
_DRAWN_ROWS_TESTS = ("tests/cli/test_drawn_rows.py",)
_HISTORY = f"{_OUTPUT}/_page.py"
_HISTORY_TESTS = ("tests/cli/test_page_history.py",)
_KILLS = f"{_CLI}/chat/_agent_process.py"
_KILL_TESTS = ("tests/cli/test_kills.py",)
_MARKDOWN = f"{_OUTPUT}/_markdown.py"
_MARKDOWN_TESTS = ("tests/cli/test_markdown.py",)
_TABLE = f"{_OUTPUT}/_lines.py"
_TABLE_TESTS = ("tests/cli/test_table.py",)
_PROMPT = f"{_CLI}/prompt"

MUTANTS = (
    Mutant(
        "a line of /say is sent before Enter",
        f"{_PROMPT}/_line_rules.py",
        '(.*\\S)[ \\t]*\\n"',
        '(.*\\S)[ \\t]*\\n?"',
        ("tests/cli/test_key_rules.py",),
    ),
    Mutant(
        "a line that was typed before a question answers it",
        f"{_PROMPT}/_line_rules.py",
        "return (line, not asked) if sends",
        "return (line, True) if sends",
        ("tests/cli/test_key_rules.py",),
    ),
    Mutant(
        "a question is drawn as Markdown",
        f"{_CLI}/chat/_packets.py",
        "self._output.end_text(as_written=True)",
        "self._output.end_text()",
        ("tests/cli/test_packets.py::test_a_question_is_shown_as_it_is_written",),
    ),
    Mutant(
        "Ctrl-C keeps what was typed during an answer",
        f"{_CLI}/_conversation.py",
        'self._reader.typed = ""',
        "self._reader.typed += self._reader.typed",
        ("tests/cli/test_conversation.py::test_a_stopped_answer_discards_what_was_typed",),
    ),
    Mutant(
        "a background job reads keys during an answer",
        f"{_OUTPUT}/_keyboard.py",
        "if keeps_raw and os.tcgetpgrp(fd) != os.getpgrp():",
        "if False:",
        ("tests/cli/test_typed_ahead.py",),
    ),
    Mutant(
        "a refused message is not reported at the terminal",
        f"{_CLI}/chat/_service.py",
        "print_stderr(f\"{'Perhaps not' if",
        "str(f\"{'Perhaps not' if",
        ("tests/cli/test_say.py::test_a_message_after_the_end_says_why_it_was_not_sent",),
    ),
    Mutant(
        "a lost answer ends what others ask at the prompt",
        f"{_CLI}/chat/_follow.py",
        "                if not is_gone:\n",
        "                if True:\n",
        ("tests/cli/test_following.py",),
    ),
    Mutant(
        "the URL of the example is not quoted",
        f"{_CLI}/serve/_serving.py",
        'shlex.quote(f"{url}/assist")',
        'f"{url}/assist"',
        ("tests/cli/test_curl.py",),
    ),
    Mutant(
        "the example has no key",
        f"{_CLI}/serve/_serving.py",
        "    if authorization is not None:\n",
        "    if False:\n",
        ("tests/cli/test_curl.py",),
    ),
    Mutant(
        "each artifact update starts a new block",
        _EVENTS,
        "if not append or artifact.artifact_id != self._artifact:",
        "if True:",
        _EVENT_TESTS,
    ),
    Mutant(
        "an update of another artifact continues the text",
        _EVENTS,
        "if not append or artifact.artifact_id != self._artifact:",
        "if not append:",
        _EVENT_TESTS,
    ),
    Mutant(
        "the text of the last status repeats the answer",
        _EVENTS,
        "return self._no_text_yet and status.is_terminal and",
        "return status.is_terminal and",
        _EVENT_TESTS,
    ),
    Mutant(
        "padding counts as bytes of a file",
        _EVENTS,
        '(part.raw or "").rstrip("=")',
        '(part.raw or "")',
        _EVENT_TESTS,
    ),
    Mutant(
        "a repeated state is shown again",
        _EVENTS,
        "if line != self._last_info:",
        "if line:",
        _EVENT_TESTS,
    ),
    Mutant(
        "a task that is over gets the next message",
        _IDS,
        "task_id if waits else None",
        "task_id",
        _IDS_TESTS,
    ),
    Mutant(
        "the agent chooses the folder of its file",
        _SAVED,
        're.split(r"[/\\\\]", name or "")[-1]',
        '(name or "")',
        _SAVED_TESTS,
    ),
    Mutant(
        "a received file replaces an existing one",
        _SAVED,
        'path.open("xb")',
        'path.open("wb")',
        _SAVED_TESTS,
    ),
    Mutant(
        "the token of a webhook is shown",
        _WEBHOOKS,
        '{"token": _HIDDEN} if config.token else {}',
        "{}",
        _WEBHOOK_TESTS,
    ),
    Mutant(
        "a variable without a key means no keys",
        _KEYS,
        "                if not values:\n",
        "                if False:\n",
        _KEY_TESTS,
    ),
    Mutant(
        "a key of the environment is printed",
        _KEYS,
        "if self.source not in _SEPARATORS:",
        "if True:",
        _KEY_TESTS,
    ),
    Mutant(
        "a key of a file is printed",
        _KEYS,
        "        if self.file is not None:\n",
        "        if False:\n",
        _KEY_TESTS,
    ),
    Mutant(
        "a single key is split at commas",
        _KEYS,
        r'KEY_VARIABLE: r"\s+"}',
        r'KEY_VARIABLE: r"[\s,]+"}',
        _KEY_TESTS,
    ),
    Mutant(
        "a missing library of the agent is a missing agent",
        _LOAD,
        'if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):',
        "if error.name is None:",
        _LOAD_TESTS,
    ),
    Mutant(
        "the current directory is searched last",
        _LOAD,
        "sys.path.insert(0, str(Path.cwd()))",
        "sys.path.append(str(Path.cwd()))",
        _LOAD_TESTS,
    ),
    Mutant(
        "only a name without dots is found in a module",
        _LOAD,
        'for part in attribute.split("."):',
        "for part in [attribute]:",
        _LOAD_TESTS,
    ),
    Mutant(
        "-v shows the logs of all libraries",
        _LOGS,
        "logging.getLogger().setLevel(logging.DEBUG if verbose > 1 else default_level)",
        "logging.getLogger().setLevel(logging.DEBUG if verbose else default_level)",
        _LOG_TESTS,
    ),
    Mutant(
        "the access log is always shown",
        _LOGS,
        "logging.INFO if verbose else logging.WARNING)\n\n\n",
        "logging.INFO)\n\n\n",
        _LOG_TESTS,
    ),
    Mutant(
        "a source that is cited twice is listed twice",
        _PACKETS,
        "self._cited.setdefault(item.uri, _Cited(seq, item))",
        "self._cited[f'{item.uri}#{len(self._cited)}'] = _Cited(seq, item)",
        _PACKET_TESTS,
    ),
    Mutant(
        "the sources of an answer that broke off are listed",
        _PACKETS,
        "if exc_type is None and self._cited:",
        "if self._cited:",
        _PACKET_TESTS,
    ),
    Mutant(
        "a thought is shown as a detail",
        _PACKETS,
        "self._output.thought(_text_of(data))",
        "self._output.detail(_text_of(data))",
        _PACKET_TESTS,
    ),
    Mutant(
        "one library of the server is enough",
        f"{_CLI}/_load.py",
        'find_spec("starlette") is None or find_spec("uvicorn") is None',
        'find_spec("starlette") is None and find_spec("uvicorn") is None',
        ("tests/cli/test_required_extras.py",),
    ),
    Mutant(
        "one library of the AI client is enough",
        f"{_CLI}/_load.py",
        "if any(find_spec(name) is None for name in _LLM_MODULES):",
        "if all(find_spec(name) is None for name in _LLM_MODULES):",
        ("tests/cli/test_required_extras.py",),
    ),
    Mutant(
        "a cost of 0 is not shown",
        f"{_CLI}/_text.py",
        "if isinstance(dollars, int | float) else line",
        "if dollars else line",
        ("tests/cli/test_usage.py",),
    ),
    Mutant(
        "an estimate looks exact",
        f"{_CLI}/_text.py",
        '("about " if usage.get("estimated") else "")',
        '""',
        ("tests/cli/test_usage.py",),
    ),
    Mutant(
        "a request that the provider rejected is wrong usage",
        _EXITS,
        "if isinstance(error, llm.LLMRequestError) and not error.attempts:",
        "if isinstance(error, llm.LLMRequestError):",
        _EXIT_TESTS,
    ),
    Mutant(
        "status 400 of an agent is a violation of the protocol",
        _EXITS,
        "(error.status or 0) < 400",
        "(error.status or 0) <= 400",
        _EXIT_TESTS,
    ),
    Mutant(
        "a file that cannot be written is reported as the output",
        _EXITS,
        "if error.filename is None and error.errno in _WRITE_ERRORS:",
        "if error.errno in _WRITE_ERRORS:",
        _EXIT_TESTS,
    ),
    Mutant(
        "a block that hides words is rendered",
        _MARKDOWN,
        "or _letters(_texts(markdown.parsed)) - shown:",
        "or False:",
        _MARKDOWN_TESTS,
    ),
    Mutant(
        "HTML is left out",
        _MARKDOWN,
        '{"html": False}',
        '{"html": True}',
        _MARKDOWN_TESTS,
    ),
    Mutant(
        "a block keeps the width of its first drawing",
        _MARKDOWN,
        "if width not in self._lines:",
        "if not self._lines:",
        _MARKDOWN_TESTS,
    ),
    Mutant(
        "a part cuts a word in two",
        _PAGE,
        "        if not self._blocks.ends_within_word:\n",
        "        if True:\n",
        _PAGE_TESTS,
    ),
    Mutant(
        "the bar of a step that has ended stays live",
        _PAGE,
        "            del self._running_steps[update.label]\n",
        "",
        _PAGE_TESTS,
    ),
    Mutant(
        "paragraphs are not separated",
        _PAGE,
        "self._blank_line_due, self._nothing_shown = True, False",
        "self._nothing_shown = False",
        _PAGE_TESTS,
    ),
    Mutant(
        "a finished part is taken twice",
        _PAGE,
        "parts, self._finished = self._finished, []",
        "parts = self._finished",
        _PAGE_TESTS,
    ),
    Mutant(
        "the end of an answer is not drawn",
        _PAINTER,
        "            self._page.finish()\n            self._screen.draw(self._page.take(), ())\n",
        "            self._page.finish()\n",
        _PAINTER_TESTS,
    ),
    Mutant(
        "an error of the terminal is forgotten",
        _PAINTER,
        "            self._error = error\n",
        "            del error\n",
        _PAINTER_TESTS,
    ),
    Mutant(
        "a pause leaves the unfinished text on the screen",
        _PAINTER,
        """\
            self._paused = True
            self._screen.draw(self._page.take(), ())
""",
        "            self._paused = True\n",
        _PAINTER_TESTS,
    ),
    Mutant(
        "a signal handler waits for a terminal without end",
        _PAINTER,
        "self.stop(_STOP_TIMEOUT)",
        "self.stop(30)",
        _PAINTER_TESTS,
    ),
    Mutant(
        "a closed pipe is written to again",
        _PLAIN,
        "if exc_type is not BrokenPipeError:",
        "if True:",
        _PLAIN_TESTS,
    ),
    Mutant(
        "an answer does not end its line",
        _PLAIN,
        'if self._last and not self._last.endswith("\\n"):',
        "if False:",
        _PLAIN_TESTS,
    ),
    Mutant(
        "the sources continue the block before them",
        _PLAIN,
        "        self._follows_block = False\n        self.lines([",
        "        self.lines([",
        _PLAIN_TESTS,
    ),
    Mutant(
        "live rows fill the whole screen",
        _SCREEN,
        "_MARGIN = 2 ",
        "_MARGIN = 0 ",
        _SCREEN_TESTS,
    ),
    Mutant(
        "the first live rows are shown",
        _SCREEN,
        "return lines[-max_rows:]",
        "return lines[:max_rows]",
        _SCREEN_TESTS,
    ),
    Mutant(
        "live rows are erased from the second one on",
        _SCREEN,
        "rows_up = max(self._rows - 1, 0) + self._removed",
        "rows_up = max(self._rows - 2, 0) + self._removed",
        _SCREEN_TESTS,
    ),
    Mutant(
        "a file gets live rows",
        _SCREEN,
        "if live and self._console.is_terminal else []",
        "if live else []",
        _SCREEN_TESTS,
    ),
    Mutant(
        "a row that has scrolled away by one is erased",
        _DRAWN_ROWS,
        "start < self._lowest - height",
        "start < self._lowest - height - 1",
        _DRAWN_ROWS_TESTS,
    ),
    Mutant(
        "live rows that are gone are not counted as rows that scrolled",
        _DRAWN_ROWS,
        "start < self._lowest - height",
        "start < self._rows - height",
        _DRAWN_ROWS_TESTS,
    ),
    Mutant(
        "all terminals agree about the width of symbols",
        _DRAWN_ROWS,
        "2 if _is_disputed(char) else cell_len(char)",
        "cell_len(char)",
        _DRAWN_ROWS_TESTS,
    ),
    Mutant(
        "log lines are shown again when the answer starts again",
        _HISTORY,
        "(removed or each.seq is not None)",
        "True",
        _HISTORY_TESTS,
    ),
    Mutant(
        "parts that were not drawn are regarded as drawn",
        _HISTORY,
        "min(done[first_void - 1].finished if first_void else 0, self._page.taken)",
        "done[first_void - 1].finished if first_void else 0",
        _HISTORY_TESTS,
    ),
    Mutant(
        "a void source is listed",
        _PACKETS,
        "if cited.seq <= to_seq",
        "if True",
        ("tests/cli/test_rewinds.py",),
    ),
    Mutant(
        "an agent is killed again before it has written something new",
        _KILLS,
        "return self._last is None or written_at > self._last",
        "return True",
        _KILL_TESTS,
    ),
    Mutant(
        "an empty table is a blank line",
        _TABLE,
        "if table.row_count:",
        "if True:",
        _TABLE_TESTS,
    ),
    Mutant(
        "the lines of a pipe are wrapped",
        _TABLE,
        "if not sys.stdout.isatty():",
        "if False:",
        _TABLE_TESTS,
    ),
    Mutant(
        "a server accepts a key with spaces",
        "coreason_client/server/http/_auth.py",
        "if not isinstance(key, str) or not VISIBLE.fullmatch(key):",
        "if not isinstance(key, str) or not (key.isascii() and key.isprintable() and key):",
        ("tests/server/http/test_auth.py",),
    ),
    Mutant(
        "files of earlier messages do not count for the limit",
        _CLI,
        'sum(len(one.content or b"") for one in before)',
        "0",
        ("tests/cli/test_attached.py",),
    ),
    Mutant(
        "embedded directions reach the terminal",
        _CLI,
        "\\u202a-\\u202e",
        "",
        ("tests/cli/test_clean.py",),
    ),
    Mutant(
        "isolated directions reach the terminal",
        _CLI,
        "\\u2066-\\u2069",
        "",
        ("tests/cli/test_clean.py",),
    ),
    Mutant(
        "half a character reaches the terminal",
        _CLI,
        "\\ud800-\\udfff",
        "",
        ("tests/cli/test_clean.py",),
    ),
    Mutant(
        "a lost connection of a model is an error of the model",
        "coreason_client/cli",
        "if isinstance(error, llm.LLMConnectionError | llm.LLMTimeoutError):",
        "if False:",
        ("tests/cli/test_exits.py",),
    ),
    Mutant(
        "a request to a model that was refused here failed there",
        "coreason_client/cli",
        "isinstance(error, llm.LLMRequestError) and not error.attempts",
        "False",
        ("tests/cli/test_exits.py",),
    ),
    Mutant(
        "a closed pipe of the reader is an interruption",
        "coreason_client/cli",
        "raise typer.Exit(ExitCode.CLOSED_PIPE) from None",
        "raise typer.Exit(ExitCode.INTERRUPTED) from None",
        ("tests/cli/test_exits.py", "tests/cli/test_output.py"),
    ),
    Mutant(
        "an invalid response of an A2A agent is an error of the agent",
        "coreason_client/cli",
        "(error.status or 0) < 400",
        "False",
        ("tests/cli/test_exits.py",),
    ),
    Mutant(
        "stdin may be attached twice",
        "coreason_client/cli",
        'if names.count("-") > 1:',
        "if False:",
        (
            "tests/cli/test_attached.py",
            "tests/cli/test_a2a_attachments.py",
            "tests/cli/test_llm_parts.py",
        ),
    ),
    Mutant(
        "a URL is read as a file",
        "coreason_client/cli",
        'if name.lower().startswith(("http://", "https://")):',
        'if name.startswith(("http://", "https://")):',
        ("tests/cli/test_attached.py", "tests/cli/test_a2a_attachments.py"),
    ),
    Mutant(
        "the answer to an MCP server need not fit its schema",
        "coreason_client/cli/llm/_mcp.py",
        "problem = schema_problem(value, field)",
        "problem = None",
        ("tests/cli/test_llm_mcp.py",),
    ),
)
