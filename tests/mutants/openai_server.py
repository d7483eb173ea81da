"""Mutants of the OpenAI-compatible API and of the fold below it."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_T = "tests/server"
_WRITERS = f"{_T}/openai/test_writers.py"
_HISTORY = f"{_T}/openai/test_history.py"
_ENDINGS = f"{_T}/openai/test_endings.py"
_LEAVING = f"{_T}/openai/test_leaving.py"
_REPEATS = f"{_T}/http/test_repeats.py"
_ENTRIES = f"{_T}/answer/test_entries.py"


def _mutant(file: str, name: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, f"coreason_client/server/{file}", old, new, tests)


MUTANTS = (
    _mutant(
        "answer/_entries.py",
        "any packet with a member like that of a text is a text",
        "    if not entry.startswith(_DELTA, at):\n",
        "    if _DELTA not in entry:\n",
        _ENTRIES,
    ),
    _mutant(
        "answer/_entries.py",
        "a text ends at its first brace",
        'entry.rindex(b"}")',
        'entry.index(b"}")',
        _ENTRIES,
    ),
    _mutant(
        "answer/_entries.py",
        "a rewind makes the packet void to which it goes back",
        "if kept[0] <= to_seq]",
        "if kept[0] < to_seq]",
        _ENTRIES,
    ),
    _mutant(
        "answer/_fold.py",
        "a tool call does not end the text before it",
        "return [*self._end(), call]",
        "return [call]",
        f"{_WRITERS}::test_every_item_begins_and_ends_once_and_is_whole_in_the_last_event",
    ),
    _mutant(
        "answer/_fold.py",
        "a second call with the id of an open one is taken for the first",
        "                if report.call_id in self._calls:\n                    return None\n",
        "",
        f"{_WRITERS}::test_a_second_call_with_the_id_of_an_open_one_is_an_event_of_the_agent",
    ),
    _mutant(
        "answer/_fold.py",
        "a call without a result is forgotten",
        "return [*self._end(), *lost, ended]",
        "return [*self._end(), ended]",
        _ENDINGS,
    ),
    _mutant(
        "answer/_fold.py",
        "an answer that the model did not finish is complete",
        "limit=None if failed else self._limit",
        "limit=None",
        _ENDINGS,
    ),
    _mutant(
        "openai/_responses.py",
        "a resume repeats the event after which it begins",
        "        if number > self.after:\n",
        "        if number >= self.after:\n",
        f"{_WRITERS}::test_a_resume_after_any_event_has_exactly_the_others",
    ),
    _mutant(
        "openai/_responses.py",
        "a resume repeats the piece of text after which it begins",
        "if number > items.after else",
        "if number >= items.after else",
        f"{_WRITERS}::test_a_resume_after_any_event_has_exactly_the_others",
    ),
    _mutant(
        "openai/_responses.py",
        "results of any size are repeated at the end",
        '        _shorten(response["output"])\n',
        "",
        _WRITERS,
    ),
    _mutant(
        "answer/_writer.py",
        "something follows the end mark",
        "            if self.has_ended:\n                break\n",
        "",
        _WRITERS,
    ),
    _mutant(
        "openai/_wire.py",
        "positions are counted in bytes",
        "    return len(from_json(text))\n",
        "    return len(text) - 2\n",
        f"{_WRITERS}::test_citations_have_the_position_of_the_text_in_characters",
    ),
    _mutant(
        "http/_answers.py",
        "entries that were encoded are encoded again when a connection is slow",
        "self._pending, self._encoded = sent, len(split_entries(body))",
        "self._pending, self._encoded = sent, 0",
        f"{_T}/openai/test_reading.py",
    ),
    _mutant(
        "http/_answers.py",
        "a drain ends half an answer regularly",
        "        await self._cut_off()\n",
        '        await self._send(send, b"", more=False)\n',
        f"{_LEAVING}::test_a_drain_cuts_readers_off_who_can_go_on_elsewhere",
    ),
    _mutant(
        "http/_answers.py",
        "a number of a later epoch is resumed although the store may have lost the first one",
        "if meta.epochs and runtime.log.may_forget else None",
        "if False else None",
        f"{_T}/openai/test_reading.py",
    ),
    _mutant(
        "openai/_routes.py",
        "an answer of which words were taken back is streamed",
        "    if has_rewind(await load_entries(runtime.log, meta.stream_id)):\n",
        "    if False:\n",
        f"{_T}/openai/test_reading.py",
    ),
    _mutant(
        "http/_chat_body.py",
        "the turns before the previous response are lost",
        "earlier=[*ask.before, *turns]",
        "earlier=turns",
        _HISTORY,
    ),
    _mutant(
        "http/_chat_body.py",
        "instructions are stored with the turn",
        "has_instructions=ask.instructions is not None",
        "has_instructions=False",
        _HISTORY,
    ),
    _mutant(
        "openai/_request.py",
        "every answer may take words back",
        "can_rewind=not (asked.streams or asked.in_background)",
        "can_rewind=True",
        f"{_T}/openai/test_reading.py",
    ),
    _mutant(
        "openai/_request.py",
        "a response that is not stored can be continued",
        "keeps_turn=asked.is_stored",
        "keeps_turn=True",
        _HISTORY,
    ),
    _mutant(
        "openai/_stored.py",
        "a deleted response can be continued",
        "return None if not turns or turns == [_DELETED] else turns",
        "return turns or None",
        _HISTORY,
    ),
    _mutant(
        "openai/_routes.py",
        "a deleted response can be read",
        "    if await is_deleted(runtime.log, meta.principal, meta.stream_id):\n",
        "    if False:\n",
        _HISTORY,
    ),
    _mutant(
        "http/_repeats.py",
        "a request that is new takes the number of the one before",
        "        self._next[minute, digest] = number + 1\n",
        "",
        _REPEATS,
    ),
    _mutant(
        "http/_repeats.py",
        "a repetition joins a response that has arrived",
        " and now - written <= _LONGEST_PAUSE",
        "",
        _REPEATS,
    ),
    _mutant(
        "http/_repeats.py",
        "a repetition in the next minute runs the agent again",
        "        for each in (minute, minute - 1):\n",
        "        for each in (minute,):\n",
        _REPEATS,
    ),
    _mutant(
        "engine/_conversation.py",
        "a request that brings its history gets that of the store too",
        "    if not isinstance(request, RequestWithHistory):\n        return None\n",
        "    return None\n",
        _HISTORY,
    ),
)
