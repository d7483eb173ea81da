"""Mutants of the rules of durable agents."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_T = "tests/server/durable"
_CONTRACT = "tests/server/log/test_contract.py"


def _mutant(topic: str, name: str, old: str, new: str) -> Mutant:
    """Return a mutant of a pure module, tested by the file of its topic."""
    path = "coreason_client/server/durable"
    return Mutant(name, path, old, new, (f"{_T}/test_{topic}.py",))


def _paths(name: str, old: str, new: str) -> Mutant:
    path = "coreason_client/server/durable/_journal.py"
    return Mutant(name, path, old, new, (f"{_T}/test_paths.py",))


def _engine(stem: str, name: str, old: str, new: str) -> Mutant:
    path = f"coreason_client/server/engine/_{stem}.py"
    return Mutant(name, path, old, new, (f"{_T}/test_steps.py", f"{_T}/test_interrupted_steps.py"))


def _transient(name: str, old: str, new: str) -> Mutant:
    path = "coreason_client/server/engine/_producer.py"
    return Mutant(name, path, old, new, (f"{_T}/test_transient_errors.py",))


MUTANTS = (
    Mutant(
        "a packet that is refused is the first one of its step in the journal",
        "coreason_client/server/engine/_durable_writer.py",
        "_, packet = self._checked_packet(op, p)",
        "_, packet = self._frames.packet(self._appender.last_seq + 1, op, p)",
        (f"{_T}/test_refused_writes.py",),
    ),
    _mutant(
        "replay",
        "another packet is taken for the one in the log",
        "if (expected.op, expected.content) == (op, content):",
        "if expected.op == op:",
    ),
    _mutant(
        "replay",
        "the body is rewound",
        "if owner not in self._compared:",
        "if owner and owner not in self._compared:",
    ),
    _mutant(
        "replay",
        "a rewind drops the last equal packet",
        "to_seq = self._valid[before - 1] if before else 0",
        "to_seq = self._valid[before - 2] if before > 1 else 0",
    ),
    _mutant(
        "replay",
        "a step that must not run twice runs again",
        '        if policy == "fail":\n            raise StepUncertain(path)\n',
        "",
    ),
    _mutant(
        "replay",
        "an outer step is resumed although an inner one was interrupted",
        'policy == "rerun" or self._journal.has_unfinished_inside(path)',
        'policy == "rerun"',
    ),
    _mutant(
        "replay",
        "a TRANSIENT error must come again",
        "return SKIP  # the run before this one has got over it",
        "pass",
    ),
    _mutant(
        "replay",
        "the errors of a step that has ended are forgotten",
        "return max(errors).content if errors else None",
        "return None",
    ),
    _mutant(
        "journal",
        "TRANSIENT errors are progress",
        "self.reached(last_seq - errors)",
        "self.reached(last_seq)",
    ),
    _transient(
        "an agent is started again after a TRANSIENT error although its restarts are used up",
        "if not restarts.may_start(self._max_restarts):",
        "if False:",
    ),
    _transient(
        "an agent that has failed with a TRANSIENT error is not started again",
        "if error is not None and self._returned and not",
        "if False and not",
    ),
    _transient(
        "a drain waits for the restart of an agent",
        "        if self._waits:\n            self._seal_and_stop()\n",
        "",
    ),
    _transient(
        "a drain waits for the restart of an agent that fails meanwhile",
        "        if self._writer.boundary is not None:  # the server is being stopped\n",
        "        if False:\n",
    ),
    _transient(
        "the restart after a TRANSIENT error does not count",
        "release(failed=not self._hands_over)",
        "release()",
    ),
    _mutant(
        "journal",
        "a step that ends does not end those inside it",
        "        for step in self._open_inside(note.path):\n            step.done = Done(",
        "        for step in ():\n            step.done = Done(",
    ),
    _mutant(
        "journal",
        "a rewind keeps the steps that it makes void",
        "if step.wrote_after(note.to_seq):",
        "if False:",
    ),
    _mutant(
        "valid",
        "a rewind drops nothing",
        "self.by_seq.items() if seq <= to_seq}",
        "self.by_seq.items()}",
    ),
    _mutant(
        "replay",
        "other arguments are not noticed",
        "if step.arguments != arguments:",
        "if False:",
    ),
    _mutant(
        "replay",
        "an agent may end before it has done everything again",
        "if (expected := owned.next) is not None:",
        "if False and (expected := owned.next) is not None:",
    ),
    _mutant(
        "replay",
        "void packets are compared",
        "if journal.voids and journal.is_void(packet.seq):",
        "if False:",
    ),
    _mutant(
        "journal",
        "a hand-over counts as a failed restart",
        "        if not self._expected:\n",
        "        if True:\n",
    ),
    _mutant(
        "journal",
        "a finished step is no progress",
        '        """Record the end of a step."""\n        self.failed = 0',
        '        """Record the end of a step."""',
    ),
    _mutant(
        "journal",
        "restarts with progress are not limited",
        "self.failed < max_failed and self.total < MAX_STARTS",
        "self.failed < max_failed",
    ),
    _mutant(
        "replay",
        "a rewind passes a finished step",
        "if step.done is not None or step.path not in self._earlier:",
        "if step.done is None and step.path not in self._earlier:",
    ),
    _mutant(
        "journal",
        "a step whose name begins with that of another is inside it",
        'path.startswith(f"{outer}/")',
        "path.startswith(outer)",
    ),
    _mutant(
        "writers",
        "two steps write at the same time",
        "return path == self.current or is_inside(path, self.current)",
        "return True",
    ),
    _mutant(
        "replay",
        "a rewind passes a step that runs",
        "if step.done is not None or step.path not in self._earlier:",
        "if step.done is not None:",
    ),
    _mutant(
        "replay",
        "an interrupted step that was not called again stays in the log",
        "        rewind = self._rewind_unwritten(path, missing)\n",
        "        rewind = self._rewind_unwritten(path, ())\n",
    ),
    _mutant(
        "writers",
        "a step that was rewound still holds up the others",
        "        while is_inside(self.current, path):\n",
        "        while False:\n",
    ),
    _mutant(
        "writers",
        "the innermost step holds a writer up, not the outermost",
        "for writer in (*self._outer, self.current):",
        "for writer in (self.current,):",
    ),
    _paths(
        "calls from several tasks are numbered",
        "if self._callers.setdefault(prefix, caller) != caller:",
        "if False:",
    ),
    _paths(
        "a key may be used twice",
        "        self._keyed.add(path)\n",
        "",
    ),
    _mutant(
        "results",
        "a result may have any size",
        "if len(data) > self._max_bytes:",
        "if False:",
    ),
    _mutant(
        "results",
        "the arguments of a partial are not compared",
        "        given += [list(function.args), sorted(function.keywords.items())]\n",
        "",
    ),
    _mutant(
        "packets",
        "the generated id of an event is compared",
        '_GENERATED = ("id", "timestamp")',
        '_GENERATED = ("timestamp",)',
    ),
    _mutant(
        "slots",
        "the last restart may fail by a neighbour",
        "min(_SUSPECT_AFTER, max_restarts - 1)",
        "_SUSPECT_AFTER",
    ),
    _mutant(
        "slots",
        "suspects start together",
        " or any(start.suspect for start in self._started.values())",
        "",
    ),
    _mutant(
        "slots",
        "the delay of a suspect does not grow",
        "_FIRST_DELAY * 2**doublings",
        "_FIRST_DELAY",
    ),
    _engine(
        "steps",
        "a step that the producer stops is journaled as cancelled",
        "if self._is_over():  # not an outcome",
        "if False:  # not an outcome",
    ),
    _engine(
        "steps",
        "a step begins unnoticed although it must not",
        'if not step.begun and step.policy != "rerun":',
        "if False:",
    ),
    Mutant(
        "an append without entries counts as held",
        "coreason_client/server/log/_rules.py",
        "repeated = claimed_seq < first_seq <= first_seq + count - 1 <= last_seq",
        "repeated = claimed_seq < first_seq and first_seq + count - 1 <= last_seq",
        ("tests/server/log/test_rules.py",),
    ),
    Mutant(
        "a new epoch repeats numbers of the earlier one",
        "coreason_client/server/log/_rules.py",
        "repeated = claimed_seq < first_seq <= first_seq + count - 1 <= last_seq",
        "repeated = first_seq <= first_seq + count - 1 <= last_seq",
        ("tests/server/log/test_rules.py",),
    ),
    Mutant(
        "another version of an agent claims at once",
        "coreason_client/server/log/_rules.py",
        "wait = 0.0 if held.version == claimant.version else lease",
        "wait = 0.0",
        (_CONTRACT,),
    ),
    Mutant(
        "the turn of a fenced producer wins",
        "coreason_client/server/log/_memory_store.py",
        "return epoch > self.epochs.get(stream_id, 0)",
        "return stream_id not in self.epochs",
        (_CONTRACT,),
    ),
    Mutant(
        "a stream that makes progress is restarted 21 times",
        "coreason_client/server/durable",
        "MAX_STARTS: Final = 20",
        "MAX_STARTS: Final = 21",
        (f"{_T}/test_takeover.py", f"{_T}/test_journal.py"),
    ),
    Mutant(
        "a stream that makes progress is restarted 19 times",
        "coreason_client/server/durable",
        "MAX_STARTS: Final = 20",
        "MAX_STARTS: Final = 19",
        (f"{_T}/test_takeover.py", f"{_T}/test_journal.py"),
    ),
    Mutant(
        "the progress of the last restart does not count",
        "coreason_client/server/engine",
        "        restarts.reached(meta.last_seq)\n",
        "",
        (f"{_T}/test_takeover.py",),
    ),
    Mutant(
        "the journal keeps the whole message of an error",
        "coreason_client/server/durable",
        "str(error)[:_MAX_MESSAGE]",
        "str(error)",
        (f"{_T}/test_results.py",),
    ),
    Mutant(
        "the journal keeps less of the message of an error",
        "coreason_client/server/durable",
        "_MAX_MESSAGE = 2000",
        "_MAX_MESSAGE = 200",
        (f"{_T}/test_results.py",),
    ),
    Mutant(
        "a step that waited for its turn writes after the end of its caller",
        "coreason_client/server/engine",
        "    ending.check_open()\n    if step is not None:\n        step.check_open()\n",
        "    ending.check_open()\n",
        (f"{_T}/test_interrupted_steps.py",),
    ),
    Mutant(
        "a step inside one that has ended holds up all other writers",
        "coreason_client/server/durable",
        "any(one == path or is_inside(one, path) for one in writing)",
        "path in writing",
        (f"{_T}/test_interrupted_steps.py",),
    ),
    Mutant(
        "steps of the same name have the same number",
        "coreason_client/server",
        'f"{prefix}#{self._counts[prefix]}"',
        'f"{prefix}#1"',
        (f"{_T}/test_properties.py",),
    ),
    Mutant(
        "suspects are started with the others",
        "coreason_client/server/engine",
        "if self._slots.is_suspect(restarts.failed) and not restarts.handed_over:",
        "if False:",
        (f"{_T}/test_properties.py",),
    ),
    Mutant(
        "all streams are started at once",
        "coreason_client/server/durable",
        "SLOTS = 4",
        "SLOTS = 100",
        (f"{_T}/test_properties.py::test_a_few_streams_of_a_dead_process_are_started_at_a_time",),
    ),
    Mutant(
        "a stream has one restart more",
        "coreason_client/server/durable",
        "self.failed < max_failed and",
        "self.failed <= max_failed and",
        (f"{_T}/test_properties.py",),
    ),
    Mutant(
        "the note of a restart is not stored",
        "coreason_client/server/engine",
        "[dump_note(started)]",
        "[]",
        (f"{_T}/test_hand_over.py", f"{_T}/test_takeover.py"),
    ),
    Mutant(
        "an agent that fails again after a restart completes its answer",
        "coreason_client/server/engine",
        "            await writer.end_with(AGENT_ERROR)\n",
        "            await writer.complete()\n",
        (f"{_T}/test_properties.py",),
    ),
)
