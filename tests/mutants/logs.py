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
        "a log acknowledges an append that it holds from another epoch",
        "if epoch != current_epoch or (ended and not repeated):",
        "if (epoch != current_epoch or ended) and not repeated:",
        f"{_CONTRACT}::test_a_repeated_append_of_another_epoch_is_refused[memory]",
    ),
    _in_logs(
        "a log takes an append after the end",
        "if epoch != current_epoch or (ended and not repeated):",
        "if epoch != current_epoch:",
        f"{_CONTRACT}::test_nothing_follows_the_end[memory]",
    ),
    _in_logs(
        "a log leaves a gap",
        "if not repeated and first_seq != last_seq + 1:",
        "if not repeated and first_seq <= last_seq:",
        f"{_CONTRACT}::test_an_append_follows_the_last_entry[memory-5]",
    ),
    _in_logs(
        "a log keeps an append twice",
        "        raise OutOfSequence(stream_id, first_seq, last_seq)\n    return repeated\n",
        "        raise OutOfSequence(stream_id, first_seq, last_seq)\n    return False\n",
        f"{_CONTRACT}::test_a_repeated_append_is_acknowledged_without_a_second_copy[memory]",
    ),
    _in_logs(
        "a position at the end of a stream without entries is gone",
        "if body_gone and after_seq < last_seq:",
        "if body_gone and after_seq <= last_seq:",
        f"{_RULES}::test_a_position_is_gone_if_entries_behind_it_were_dropped",
    ),
    _in_logs(
        "every page of an ended stream says that it is the last one",
        "ended and after_seq + len(entries) >= last_seq",
        "ended",
        f"{_RULES}::test_a_page_says_that_the_stream_has_ended_only_with_its_last_entry",
    ),
    _in_logs(
        "a conversation of the memory log keeps any number of turns",
        "if len(self.by_stream) > MAX_TURNS or self.size",
        "if self.size",
        f"{_CONTRACT}::test_a_conversation_keeps_its_latest_turns[memory]",
    ),
    _in_logs(
        "the memory log returns all turns for a limit of 0",
        "if turns is None or limit < 1:",
        "if turns is None:",
        f"{_CONTRACT}::test_no_turns_are_returned_for_a_limit_below_one[memory-0]",
    ),
    _in_logs(
        "the memory log drops the stream that ended last",
        "while self.size > self.max_bytes and len(self.ended) > 1:",
        "while self.size > self.max_bytes and len(self.ended) > 0:",
        f"{_MEMORY}::test_the_stream_that_ended_last_is_kept_whatever_its_size",
    ),
    _in_logs(
        "a claim in the memory log leaves the old producer in place",
        "self.epoch += 1",
        "pass",
        f"{_CONTRACT}::test_a_lost_stream_is_claimed_once_and_its_producer_fenced[memory]",
    ),
    _in_logs(
        "a renewal in the memory log changes nothing",
        "stream.lease_until = until\n",
        "pass\n",
        f"{_CONTRACT}::test_a_renewed_lease_is_not_claimed[memory]",
    ),
)
