"""Mutants of the logs."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_CONTRACT = "tests/server/log/test_contract.py"
_MEMORY = "tests/server/log/test_memory.py"
_RULES = "tests/server/log/test_rules.py"


def _in_logs(name: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, "coreason_client/server/log", old, new, tests)


MUTANTS = (
    _in_logs(
        "a position of another epoch is served",
        "after_epoch != epoch_at(epochs, after_seq) or (",
        "(",
        f"{_RULES}::test_a_position_has_one_epoch",
    ),
    _in_logs(
        "the epochs of a stream are counted",
        "max(current + 1, number)",
        "current + 1",
        f"{_RULES}::test_the_next_epoch_is_later_and_begins_after_the_last_entry",
    ),
    _in_logs(
        "a page has the epoch of its position",
        "epoch_at(epochs, read))",
        "after_epoch)",
        f"{_RULES}::test_a_page_has_the_epoch_of_its_last_entry_or_of_its_position",
    ),
    _in_logs(
        "a log does not miss the notes before one that is only named",
        "repeated = claimed_note < notes.first and last <= last_note",
        "repeated = not notes.notes or claimed_note < notes.first and last <= last_note",
        f"{_CONTRACT}::TestMemory::test_an_append_without_notes_may_name_the_next_one",
    ),
    _in_logs(
        "recent entries answer for a position beyond them",
        "if after_seq < recent.lowest or left < 0:",
        "if after_seq < recent.lowest:",
        "tests/server/log/test_recent_entries.py",
    ),
    _in_logs(
        "recent entries answer for a position that they do not have",
        "self.lowest = first_seq if first_seq > 1 else 0",
        "self.lowest = first_seq - 1",
        "tests/server/log/test_recent_entries.py",
    ),
    _in_logs(
        "a log acknowledges an append that it holds from another epoch",
        "if epoch != current_epoch or (ended and not repeated):",
        "if (epoch != current_epoch or ended) and not repeated:",
        f"{_CONTRACT}::TestMemory::test_a_repeated_append_of_another_epoch_is_refused",
    ),
    _in_logs(
        "a log takes an append after the end",
        "if epoch != current_epoch or (ended and not repeated):",
        "if epoch != current_epoch:",
        f"{_CONTRACT}::TestMemory::test_nothing_follows_the_end",
    ),
    _in_logs(
        "a log leaves a gap",
        "if not repeated and first_seq != last_seq + 1:",
        "if not repeated and first_seq <= last_seq:",
        f"{_CONTRACT}::TestMemory::test_an_append_follows_the_last_entry",
    ),
    _in_logs(
        "a log keeps an append twice",
        "        raise OutOfSequence(stream_id, first_seq, last_seq)\n    return repeated\n",
        "        raise OutOfSequence(stream_id, first_seq, last_seq)\n    return False\n",
        f"{_CONTRACT}::TestMemory::test_a_repeated_append_is_acknowledged_without_a_second_copy",
    ),
    _in_logs(
        "a position at the end of a stream without entries is gone",
        "if body_gone and after_seq < last_seq:",
        "if body_gone and after_seq <= last_seq:",
        f"{_RULES}::test_a_position_is_gone_if_entries_behind_it_were_dropped",
    ),
    _in_logs(
        "every page of an ended stream says that it is the last one",
        "return Page(entries, ended and read >= last_seq,",
        "return Page(entries, ended,",
        f"{_RULES}::test_a_page_says_that_the_stream_has_ended_only_with_its_last_entry",
    ),
    _in_logs(
        "a conversation of the memory log keeps any number of turns",
        "if len(self.by_stream) > MAX_TURNS or self.size",
        "if self.size",
        f"{_CONTRACT}::TestMemory::test_a_conversation_keeps_its_latest_turns",
    ),
    _in_logs(
        "the memory log returns all turns for a limit of 0",
        "if turns is None or limit < 1:",
        "if turns is None:",
        f"{_CONTRACT}::TestMemory::test_no_turns_are_returned_for_a_limit_below_one",
    ),
    _in_logs(
        "the memory log drops the stream that ended last",
        "while self.size > self.max_bytes and len(self.ended) > 1:",
        "while self.size > self.max_bytes and len(self.ended) > 0:",
        f"{_MEMORY}::test_the_stream_that_ended_last_is_kept_whatever_its_size",
    ),
    _in_logs(
        "the memory log counts the payload of entries alone",
        "return sum(map(len, entries)) + _ENTRY * len(entries)",
        "return sum(map(len, entries))",
        f"{_MEMORY}::test_the_size_is_that_in_memory",
    ),
    _in_logs(
        "the memory log never forgets a stream before its final retention",
        "while self.size > self.max_bytes and self._forget_first_ended():",
        "while False and self._forget_first_ended():",
        f"{_MEMORY}::test_streams_without_entries_are_forgotten_when_they_alone_are_too_large",
    ),
    _in_logs(
        "a claim in the memory log leaves the old producer in place",
        "self.epoch = self.epochs[-1].epoch",
        "pass",
        f"{_CONTRACT}::TestMemory::test_a_lost_stream_is_claimed_once_and_its_producer_fenced",
    ),
    _in_logs(
        "a renewal in the memory log changes nothing",
        "stream.lease_until = until\n",
        "pass\n",
        f"{_CONTRACT}::TestMemory::test_a_renewed_lease_is_not_claimed",
    ),
    Mutant(
        "in Valkey, a process that has just started claims at once after a failover",
        "coreason_client/server/log/valkey/_session.py",
        "return primary.changed_within(seconds) or since <= self.now() < since + seconds",
        "return primary.changed_within(seconds)",
        ("tests/server/log/test_valkey_primary.py",),
    ),
)
