"""Mutants of AG-UI, and of the questions that all protocols of pages have."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_T = "tests/server/ag_ui"
_WRITER = f"{_T}/test_writer.py"
_RUNS = f"{_T}/test_runs.py"
_QUESTIONS = f"{_T}/test_questions.py"
_BAD = f"{_T}/test_bad_input.py"


def _mutant(file: str, name: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, f"coreason_client/server/{file}", old, new, tests)


def _writer(name: str, old: str, new: str, *tests: str) -> Mutant:
    return _mutant("ag_ui/_writer.py", name, old, new, *tests)


MUTANTS = (
    _writer(
        "an event at the position is sent again",
        "if (self.seq, self._index) > self._after:",
        "if (self.seq, self._index) >= self._after:",
        _WRITER,
        _RUNS,
    ),
    _writer(
        "a snapshot replaces the messages of the user",
        "[*self._run.given, *collected.all()]",
        "collected.all()",
        _WRITER,
        _RUNS,
    ),
    _writer(
        "an empty piece of text is an event",
        "        if text == _EMPTY:\n",
        "        if False:\n",
        _WRITER,
    ),
    _writer(
        "a joined run loses its citations",
        'case "CUSTOM" | "RUN_FINISHED" | "RUN_ERROR":',
        'case "RUN_FINISHED" | "RUN_ERROR":',
        _WRITER,
        _RUNS,
    ),
    _writer(
        "an id of a call that the client knows is used again",
        "        if call_id in state.used:",
        "        if False:",
        _WRITER,
        _RUNS,
    ),
    _writer(
        "a run that was stopped has failed",
        'if event.error is not None and event.error["code"] != "cancelled":',
        "if event.error is not None:",
        _WRITER,
        _RUNS,
    ),
    _writer(
        "every question blocks the chat",
        "if question is not None and (asked or self._settings.interrupts):",
        "if question is not None:",
        _QUESTIONS,
        _WRITER,
    ),
    _mutant(
        "ag_ui/_request.py",
        "an id of an event may be anything",
        "match = _EVENT_ID.fullmatch(values[0]) if len(values) == 1 else None",
        "match = _EVENT_ID.match(values[0]) if len(values) == 1 else None",
        _BAD,
        _RUNS,
    ),
    _mutant(
        "ag_ui/_request.py",
        "a run is not noted in its thread",
        "        await thread.add(note, self.stream_id)\n",
        "",
        _QUESTIONS,
    ),
    _mutant(
        "http/_chats.py",
        "another answer joins the run of the first one",
        "        is_same = found.fingerprint == fingerprint\n",
        "        is_same = True\n",
        _QUESTIONS,
        "tests/server/ai_sdk/test_approvals.py",
    ),
    _mutant(
        "http/_chats.py",
        "an old question can be answered",
        "    if newest is None or newest.stream_id != asked:\n",
        "    if newest is None:\n",
        _QUESTIONS,
        "tests/server/ai_sdk/test_approvals.py",
    ),
    _mutant(
        "http/_chats.py",
        "a question cannot be answered again after its answer has failed",
        "        if not is_same and found.outcome in (None, COMPLETE):\n",
        "        if not is_same:\n",
        _QUESTIONS,
        "tests/server/ai_sdk/test_approvals.py",
    ),
    _mutant(
        "answer/_writer.py",
        "text that is written anew is one piece of any length",
        "size + len(text) > _MAX_JOINED",
        "False",
        "tests/server/ai_sdk/test_writers.py",
    ),
    _mutant(
        "http/_chats.py",
        "the newest stream of a key is the first one",
        "newest, note = found, note._replace(number=note.number + 1)",
        "return found",
        "tests/server/http/test_chats.py",
    ),
)
