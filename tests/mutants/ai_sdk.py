"""Mutants of the protocol for pages that use the AI SDK."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_T = "tests/server/ai_sdk"
_WRITERS = f"{_T}/test_writers.py"
_TURNS = f"{_T}/test_turns.py"
_CHATS = f"{_T}/test_chats.py"
_CUTS = f"{_T}/test_cut_answers.py"
_APPROVALS = f"{_T}/test_approvals.py"
_MESSAGES = f"{_T}/test_messages.py"
_HISTORY = f"{_T}/test_history.py"
_KILL = f"{_T}/test_kill.py"
_BAD = f"{_T}/test_bad_input.py"


def _mutant(file: str, name: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, f"coreason_client/server/{file}", old, new, tests)


def _writer(name: str, old: str, new: str, *tests: str) -> Mutant:
    return _mutant("ai_sdk/_writer.py", name, old, new, *tests)


def _routes(name: str, old: str, new: str, *tests: str) -> Mutant:
    return _mutant("ai_sdk/_routes.py", name, old, new, *tests)


def _request(name: str, old: str, new: str, *tests: str) -> Mutant:
    return _mutant("ai_sdk/_request.py", name, old, new, *tests)


MUTANTS = (
    _writer(
        "a page that has everything gets no last chunk",
        'if number > self._after or kind == "finish":',
        "if number > self._after:",
        f"{_WRITERS}::test_the_rest_after_any_chunk_is_the_tail",
    ),
    _writer(
        "a page gets the piece of text twice that it has",
        "return self._frame % text if number > self._after else",
        "return self._frame % text if number >= self._after else",
        f"{_WRITERS}::test_the_rest_after_any_chunk_is_the_tail",
    ),
    _writer(
        "a page may execute the calls of the agent",
        '_OWN_TOOL: Final = {"providerExecuted": True, "dynamic": True}',
        '_OWN_TOOL: Final = {"providerExecuted": False, "dynamic": True}',
        f"{_WRITERS}::test_a_page_can_read_every_answer",
    ),
    _writer(
        "words are taken back from pages that do not know it",
        'return "reset-step" in self._facts.capabilities',
        "return True",
        f"{_WRITERS}::test_a_page_can_read_every_answer",
    ),
    _writer(
        "a rewind drops nothing from a page",
        '        self._emit("reset-step")\n',
        "",
        f"{_WRITERS}::test_a_rewind_leaves_nothing_behind",
    ),
    _writer(
        "a rewind keeps the tokens of void packets",
        '        self._forget()\n        self._emit("reset-step")\n',
        '        self.fold.part = None\n        self._emit("reset-step")\n',
        f"{_WRITERS}::test_a_rewind_leaves_nothing_behind",
    ),
    _writer(
        "a void result of an approved call stays after a rewind",
        "        self._tell_approval()  # the call",
        "        # the call",
        f"{_WRITERS}::test_an_answered_question_is_the_same_after_a_reload",
    ),
    _writer(
        "an error is not followed by the last chunk",
        '        self._emit("error", errorText=error["message"], code=error["code"])\n'
        '        self._end("error")\n',
        '        self._emit("error", errorText=error["message"], code=error["code"])\n',
        f"{_MESSAGES}::test_every_chunk_is_valid",
    ),
    _writer(
        "a call without a result stays open",
        "if not result.has_ended and call_id == self._calls.asked:",
        "if not result.has_ended and call_id != self._calls.asked:",
        f"{_MESSAGES}::test_a_page_shows_everything",
    ),
    _writer(
        "a call that waits for the user has an error",
        "if not result.has_ended and call_id == self._calls.asked:",
        "if False:",
        f"{_APPROVALS}::test_an_answer_goes_on_in_the_same_message",
    ),
    _writer(
        "a second call with the same id is written over the first",
        "while (name := _repeated(call_id, count)) in self._used:",
        "while (name := _repeated(call_id, count)) in ():",
        f"{_WRITERS}::test_ids_of_calls_are_never_the_same",
    ),
    _writer(
        "an approved call is shown twice",
        "is_same = call_id not in self._counts and is_call_id(given, call_id)",
        "is_same = False",
        f"{_APPROVALS}::test_an_answer_goes_on_in_the_same_message",
    ),
    _writer(
        "a continued message still asks",
        "        if asks is not None or self._facts.continues:\n",
        "        if asks is not None:\n",
        f"{_APPROVALS}::test_an_answer_goes_on_in_the_same_message",
    ),
    _writer(
        "a continued message loses its metadata by a reload",
        "            if error is None and (metadata := self._metadata(event.asks)):\n",
        "            if error is None and (metadata := {}):\n",
        f"{_WRITERS}::test_a_continued_message_is_the_same_after_a_reload",
    ),
    _writer(
        "a continued answer begins a message of its own",
        "messageId=facts.continues or message_id(stream_id)",
        "messageId=message_id(stream_id)",
        f"{_APPROVALS}::test_an_answer_goes_on_in_the_same_message",
    ),
    _writer(
        "thoughts run into each other",
        '        before = "\\n\\n" if self._thoughts else ""\n',
        '        before = ""\n',
        f"{_MESSAGES}::test_a_page_shows_everything",
    ),
    _writer(
        "progress stays in the message",
        "data=it.data, transient=True",
        "data=it.data, transient=False",
        f"{_MESSAGES}::test_a_page_shows_everything",
    ),
    _writer(
        "the bytes of a large file are sent",
        "len(raw) > _MAX_FILE",
        "len(raw) < 0",
        f"{_MESSAGES}::test_a_large_file_is_named_and_not_sent",
    ),
    _routes(
        "an answer that has ended is resumed by its chat",
        "return answer.outcome is None or",
        "return True or",
        f"{_CHATS}::test_a_page_without_a_running_answer_is_ready",
    ),
    _routes(
        "a number of a chunk may belong to another answer of the chat",
        "        if is_rest and found.has_several:\n",
        "        if False:\n",
        f"{_CHATS}::test_a_number_does_not_name_one_of_several_answers",
    ),
    _routes(
        "a chat of a server without keys may have a short id",
        "        if not self._gate.has_keys and len(chat_id) < _MIN_SECRET:\n",
        "        if False:\n",
        f"{_CHATS}::test_a_server_without_keys_wants_a_long_id",
    ),
    _routes(
        "a negative number is counted from the beginning",
        "            start = max(counted.number + start, 0)\n",
        "            start = 0\n",
        f"{_CUTS}::test_every_rest_of_an_answer_is_its_tail",
    ),
    _routes(
        "the number of the last chunk is one too high",
        "str(counted.number - 1)",
        "str(counted.number)",
        f"{_CUTS}::test_every_rest_of_an_answer_is_its_tail",
    ),
    _routes(
        "a reload loses the earlier answers of a message",
        "        return await _load(log, known.values())\n",
        "        return []\n",
        f"{_APPROVALS}::test_a_reload_in_the_middle_of_a_continued_answer",
    ),
    _routes(
        "a transport with nothing to resume gets an error",
        "    if start is None:\n        return Response(status_code=204)\n",
        "    if start is None or start == 0:\n        return Response(status_code=204)\n",
        f"{_CHATS}::test_a_chat_with_a_start_index_is_never_204",
    ),
    _mutant(
        "http/_answers.py",
        "a reader that has everything is counted for ever",
        "        with admitted.reader:\n",
        "        if admitted.reader:\n",
        f"{_CHATS}::test_readers_are_counted_until_they_leave",
    ),
    _request(
        "a stopped answer is joined",
        "            return not found.cancel_requested\n",
        "            return True\n",
        f"{_TURNS}::test_a_message_is_answered_again_while_it_is_being_stopped",
    ),
    _request(
        "a failed answer is repeated for ever",
        "        return found.outcome == COMPLETE and not is_new\n",
        "        return not is_new\n",
        f"{_TURNS}::test_a_failed_message_is_tried_again_with_the_same_body",
    ),
    _request(
        "an answer cannot be generated again",
        "        is_new = self.asked.regenerates or found.body_gone\n",
        "        is_new = found.body_gone\n",
        f"{_TURNS}::test_an_answer_is_generated_again",
    ),
    _request(
        "the chats of all names are one",
        "to_json([chat_id or uuid4().hex, trigger,",
        "to_json([trigger,",
        f"{_TURNS}::test_another_message_is_answered",
    ),
    _request(
        "a question about another call is answered",
        "    if call is None or not is_call_id(approval.call_id, call.call_id):\n",
        "    if call is None:\n",
        f"{_APPROVALS}::test_an_answer_to_something_else_is_refused",
    ),
    _request(
        "the messages of a page are stored as a conversation too",
        "            is_in_store=asked.is_in_store,\n",
        "            is_in_store=True,\n",
        f"{_HISTORY}::test_three_turns_an_edit_and_a_new_answer",
    ),
    _request(
        "a chat may have the id of a run",
        '    if stream_in("run", chat_id) is not None:\n',
        "    if False:\n",
        f"{_BAD}::test_a_body_is_refused",
    ),
    _mutant(
        "ai_sdk/_request.py",
        "calls without a result are history",
        "            if result is not None:\n",
        "            if call is not None:\n",
        f"{_HISTORY}::test_parts_of_messages",
    ),
    _mutant(
        "ai_sdk/_request.py",
        "an id of a call may be missing",
        "    if not isinstance(call_id, str):\n",
        "    if call_id == 0:\n",
        f"{_BAD}::test_a_body_is_refused",
    ),
    _routes(
        "an answer that has ended is never resumed by its chat",
        'request.query_params.get("ended") == "true"',
        'request.query_params.get("ended") == "yes"',
        f"{_CUTS}::test_a_page_that_has_not_seen_the_end_reads_an_answer_that_has_ended",
    ),
    _mutant(
        "answer/_fold.py",
        "a question is about a call that is void",
        "    for _, entry in valid_entries(entries):\n",
        "    for _, entry in enumerate(entries):\n",
        f"{_KILL}::test_the_call_of_a_question_is_the_valid_one",
    ),
    _mutant(
        "http/_chats.py",
        "another answer to a question is a new one",
        "        if not is_same and found.outcome in (None, COMPLETE):\n",
        "        if False:\n",
        f"{_APPROVALS}::test_the_same_answer_joins_and_another_one_is_refused",
    ),
    _mutant(
        "http/_chats.py",
        "the oldest answer of a chat is taken for the newest",
        "for one in reversed(stored)]",
        "for one in stored]",
        f"{_TURNS}::test_two_messages_of_one_chat_at_the_same_time",
    ),
)
