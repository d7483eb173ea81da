"""Mutants of the server, without its logs."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_T = "tests/server"
_APPENDER = f"{_T}/engine/test_appender.py"
_APP = f"{_T}/test_app.py"
_CUT_BACK = f"{_T}/test_cut_back.py"
_DECISION = f"{_T}/http/test_decision.py"
_CURSOR = f"{_T}/http/test_cursor.py"
_FRAMES = f"{_T}/engine/test_frames.py"
_LIFECYCLE = f"{_T}/test_lifecycle.py"
_LIMITS = f"{_T}/http/test_rate_limit.py"
_METRICS = f"{_T}/observe/test_metrics.py"
_PRODUCERS = f"{_T}/engine/test_producers.py"
_READER = f"{_T}/cap/test_response.py"
_REFUSALS = f"{_T}/http/test_refusals.py"
_TRACE = f"{_T}/observe/test_spans.py"
_TURNS = f"{_T}/engine/test_conversation.py"


def _mutant(file: str, name: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, f"coreason_client/server/{file}", old, new, tests)


def _anywhere(name: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, "coreason_client/server", old, new, tests)


_IN_THE_APPENDER = (
    _mutant(
        "engine/_appender.py",
        "a batch that is sent again ends the stream though more is pending",
        "first_seq, outcome = batch.first_seq, batch.outcome\n",
        "first_seq, outcome = batch.first_seq, batch.outcome or self._pending.outcome\n",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "an append without notes does not name the next one",
        "if not batch.notes and (self._kept.notes is None or not log.shared):",
        "if not batch.notes:",
        f"{_APPENDER}::test_a_lost_note_is_noticed_by_the_next_entry",
    ),
    _mutant(
        "engine/_appender.py",
        "what the store has lost is not sent again",
        "        if not self._kept.plan_resend(error):\n",
        "        if True:\n",
        f"{_CUT_BACK}::test_a_living_producer_sends_again_what_the_store_has_lost",
    ),
    _mutant(
        "engine/_appender.py",
        "all streams together keep any number of bytes",
        "            or KeptBatches.in_all > _KEEP_BYTES_IN_ALL\n",
        "",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "the store may lose the same batches for ever",
        " and self.resends < _RESENDS",
        "",
        _APPENDER,
    ),
    _mutant(
        "http/_stream_response.py",
        "a 204 does not name the outcome",
        'headers={"X-Stream-Outcome": meta.outcome}',
        "headers={}",
        f"{_CUT_BACK}::test_half_an_answer_is_not_complete_after_a_resume",
    ),
    _mutant(
        "engine/_appender.py",
        "the first packet waits for others",
        "        if self.last_seq == 1 and not self._pending.waits:\n",
        "        if False:\n",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "the bytes that gather are not bounded",
        "        elif self._pending.size >= FLUSH_BYTES:\n",
        "        elif False:\n",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "an agent that only writes stops everything else",
        "        if not await self.flush():\n",
        "        if not await self.flush() and False:\n",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "the size of a batch that went out still counts",
        "            self._pending = _Batch()\n",
        "            self._pending = _Batch()\n            self._pending.size = batch.size\n",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "a stream has an outcome before its last packet is in the log",
        "        self._pending.outcome = outcome\n",
        "        self._pending.outcome = self.ending.outcome = outcome\n",
        f"{_TRACE}::test_a_stream_that_could_not_be_ended_is_lost",
    ),
    _mutant(
        "engine/_appender.py",
        "a batch whose append was cancelled is dropped",
        "        elif self._in_flight is not None:",
        "        elif False:",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "a packet never waits for others",
        "self._due = batch.began + FLUSH_EVERY",
        "self._due = batch.began",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "packets that gathered while the log was busy stay behind",
        "elif self._pending.entries and self._timer is None:",
        "elif False:",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "a cancel that an append reports is ignored",
        "            self._on_cancel()\n",
        "            pass\n",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "a stream that was given up keeps its timer",
        "        self._pending = _Batch()\n        self._stop_timer()",
        "        self._pending = _Batch()",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "a writer does not learn that the log failed",
        "        self.ending.raise_error()\n",
        "",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "a cancelled writer takes the progress from the others",
        "            if not waiter.done():\n                waiter.set_result(None)\n",
        "            waiter.set_result(None)\n",
        _APPENDER,
    ),
    _mutant(
        "engine/_appender.py",
        "events are counted again with every batch",
        "            self._pending = _Batch()\n",
        "            self._pending = _Batch()\n"
        "            self._pending.other_ops = batch.other_ops\n",
        f"{_METRICS}::test_a_stream_is_counted_from_its_start_to_its_end",
    ),
    _mutant(
        "engine/_packets.py",
        "an ended stream takes more packets",
        "        if self.begun or self.sealed:\n            raise StreamEnded",
        "        if self.sealed:\n            raise StreamEnded",
        _APPENDER,
    ),
)

_IN_THE_PRODUCERS = (
    _mutant(
        "engine/_producers.py",
        "a stream that has ended counts until its producer is gone",
        "self._units[producer].release()",
        "pass",
        _PRODUCERS,
    ),
    _mutant(
        "engine/_producers.py",
        "a running stream does not count when there are too many",
        "if producer.meta.principal == principal and producer.ended:",
        "if producer.meta.principal == principal:",
        _PRODUCERS,
    ),
    _mutant(
        "engine/_producers.py",
        "a reader that comes back does not save the producer",
        "            producer.abandon_timer.cancel()\n            producer.abandon_timer = None",
        "            producer.abandon_timer = None",
        _PRODUCERS,
    ),
    _mutant(
        "engine/_producers.py",
        "a producer without readers is cancelled whatever on_abandoned says",
        'if options.on_abandoned == "cancel" and not ',
        "if not ",
        _PRODUCERS,
    ),
    _mutant(
        "engine/_producers.py",
        "a producer is cancelled when any of its readers leaves",
        "self._readers_of_stream[meta.stream_id] -= 1",
        "self._readers_of_stream[meta.stream_id] = 0",
        _PRODUCERS,
    ),
    _mutant(
        "engine/_producer.py",
        "the last reason of a stop counts instead of the first",
        "        if self._reason is None:\n            self._reason = reason\n",
        "        if True:\n            self._reason = reason\n",
        _PRODUCERS,
    ),
    _mutant(
        "engine/_producer.py",
        "a stream that is being ended is taken for lost",
        "        if self.ended:\n            return\n",
        "",
        f"{_LIFECYCLE}::test_a_stream_that_is_just_being_ended_is_not_taken_for_lost",
    ),
    _mutant(
        "engine/_producer.py",
        "an agent that ignores its cancellation holds the stream",
        "timeout=self._cancel_grace",
        "timeout=None",
        f"{_PRODUCERS}::test_the_first_reason_to_stop_counts",
    ),
    _mutant(
        "engine/_limits.py",
        "a principal may have one reader more",
        "if self._used[principal] >= room:",
        "if self._used[principal] > room:",
        f"{_REFUSALS}::test_a_key_has_a_number_of_readers",
    ),
    _mutant(
        "engine/_limits.py",
        "every principal ever seen stays in the tables",
        "    if not counts[key]:",
        "    if False:",
        _PRODUCERS,
    ),
    _mutant(
        "engine/_producer.py",
        "the text of an exception reaches the readers",
        "await writer.end_with(AGENT_ERROR)",
        "await writer.end_with(AGENT_ERROR.model_copy(update={'message': str(self._failure)}))",
        f"{_APP}::test_an_agent_that_raises_ends_its_stream_without_telling_why",
    ),
    _mutant(
        "engine/_producer.py",
        "a stream has no end when the event loop ends",
        "            self._shut_down()\n        if",
        "            raise\n        if",
        f"{_LIFECYCLE}::test_a_mounted_agent_without_a_lifespan_still_ends_its_streams",
    ),
    _mutant(
        "engine/_producer.py",
        "a cancelled agent does not see that it is cancelled",
        "            self._writer.cancelled = True\n",
        "",
        f"{_APP}::test_a_stream_can_be_cancelled",
    ),
)

_IN_THE_READER = (
    _mutant(
        "http/_stream_response.py",
        "a reader is told to come back with every page",
        "if not self._retry_sent:",
        "if True:",
        _READER,
    ),
    _mutant(
        "http/_stream_response.py",
        "a reader that has left still counts",
        "self._runtime.producers.remove_reader(self._meta)",
        "pass",
        _READER,
    ),
    _mutant(
        "http/_stream_response.py",
        "a reader that takes nothing is never cut",
        "asyncio.timeout(self._runtime.options.send_timeout):\n            await send(",
        "asyncio.timeout(None):\n            await send(",
        _READER,
    ),
    _mutant(
        "http/_stream_response.py",
        "the last page does not end the response",
        "more=not ended",
        "more=True",
        _READER,
    ),
    _mutant(
        "_internals.py",
        "a chunk is written although the connection takes no more",
        "if flow.write_paused or cycle.disconnected",
        "if cycle.disconnected",
        _READER,
    ),
    _mutant(
        "http/_stream_response.py",
        "a response ends in order though the log failed",
        '            logger.warning("a reader of %s was disconnected: %s", self._subject, error)\n',
        '            await self._send(send, b"", more=False)\n',
        _READER,
    ),
    _mutant(
        "http/_stream_response.py",
        "a reader that has left is noticed with the next packet only",
        "return DisconnectWatch(cycle, leave).stop",
        "return DisconnectWatch(cycle, lambda: None).stop",
        _READER,
    ),
    _mutant(
        "http/_stream_response.py",
        "a reader on another server that has left is noticed with the next packet only",
        "gone.add_done_callback(leave)",
        "gone.add_done_callback(id)",
        _READER,
    ),
    _mutant(
        "http/_body.py",
        "a body that drips has no time limit",
        "arrived = cycle is not None and not cycle.more_body",
        "arrived = cycle is not None",
        f"{_T}/http/test_body.py",
        _REFUSALS,
    ),
    _mutant(
        "http/_body.py",
        "values are counted in the last chunk only",
        "values.feed(body[counted:], options.max_json_values)",
        "values.feed(chunk, options.max_json_values)",
        f"{_T}/http/test_body.py",
    ),
)

_FOR_REQUESTS = (
    _anywhere(
        "a resume with another body is served",
        "if meta.fingerprint != request.fingerprint:",
        "if False:",
        f"{_REFUSALS}::test_another_body_under_a_known_request_gets_409",
    ),
    _anywhere(
        "a resume with another request_id is served",
        "if meta.request_id != request.request_id:",
        "if False:",
        f"{_REFUSALS}::test_another_body_under_a_known_request_gets_409",
    ),
    _anywhere(
        "a position beyond the end is served",
        "or (ended and after_seq > last_seq)",
        "or False",
        f"{_REFUSALS}::test_a_position_that_was_never_reached_gets_410",
    ),
    _anywhere(
        "the position of the last packet is refused",
        "or (ended and after_seq > last_seq)",
        "or after_seq >= last_seq",
        _READER,
    ),
    _anywhere(
        "anybody may read and cancel a stream",
        "if meta.principal != principal:",
        "if False:",
        f"{_REFUSALS}::test_a_foreign_stream_is_not_there",
    ),
    _anywhere(
        "a resume at the latest packet of a running stream gets nothing",
        "if meta.outcome is not None and after.seq == meta.last_seq:",
        "if after.seq == meta.last_seq:",
        _READER,
    ),
    _anywhere(
        "packets that are no longer kept are served",
        "    if meta.body_gone:\n        raise PositionGone(meta.stream_id, after.seq)",
        "    if False:\n        raise PositionGone(meta.stream_id, after.seq)",
        f"{_REFUSALS}::test_a_position_that_is_gone_gets_410_for_a_day",
    ),
    _anywhere(
        "a request whose body arrives during a shutdown starts a stream",
        "    if server.closing:\n        return Find",
        "    if False:\n        return Find",
        f"{_T}/test_schedule.py",
        _DECISION,
    ),
    _anywhere(
        "a head that names a known request lets a new one in",
        "if request.known is not None and request.known.request_id == request.request_id:",
        "if request.known is not None:",
        _DECISION,
        f"{_LIMITS}::test_a_head_that_promises_a_known_request_lets_no_new_one_in",
    ),
    _anywhere(
        "a join gives back what was not counted",
        "return Join(request.opened.meta, gives_token_back=not request.wait)",
        "return Join(request.opened.meta, gives_token_back=True)",
        _DECISION,
        f"{_LIMITS}::test_joining_a_known_request_does_not_count",
    ),
    _anywhere(
        "a known request is refused when its key has no stream left",
        "return Refuse(request.refusal) if request.found is None else Need.OPENED",
        "return Refuse(request.refusal)",
        _DECISION,
        f"{_REFUSALS}::test_a_key_has_a_number_of_streams",
    ),
    _anywhere(
        "the response to a cancel does not wait for the end",
        "await asyncio.wait({producer.task}, timeout=_CANCEL_WAIT)",
        "pass",
        f"{_TURNS}::test_the_response_to_a_cancel_waits_for_an_agent_that_cleans_up",
    ),
    _anywhere(
        "a cancel reaches only a producer of the same process",
        "        await self._log.request_cancel(meta.stream_id)\n",
        "",
        f"{_TURNS}::test_a_turn_that_another_replica_cancelled_is_kept",
    ),
    _anywhere(
        "a cancel waits for the next packet of the agent",
        "            producer.stop(CANCELLED)\n            # Most",
        "            # Most",
        f"{_TURNS}::test_a_cancelled_turn_is_kept_when_the_cancel_returns[memory]",
    ),
    _anywhere(
        "of several Last-Event-ID the first one counts",
        'parse_cursor(",".join(values))',
        "parse_cursor(values[0])",
        f"{_REFUSALS}::test_a_bad_position_gets_400",
        f"{_REFUSALS}::test_two_positions_get_400",
    ),
    _anywhere(
        "the health is ok whatever the log does",
        'return "ok" if runtime.log_works else "degraded"',
        'return "ok"',
        f"{_T}/test_schedule.py",
    ),
    _anywhere(
        "too many readers are refused after the body was read",
        "return Need.TOKEN if request.may_read else Refuse(too_many_readers(server.options))",
        "return Need.TOKEN",
        f"{_LIMITS}::test_too_many_readers_are_refused_before_the_body_and_start_nothing",
    ),
)

_IN_THE_RUNTIME = (
    _anywhere(
        "a stream that begins while others are stopped is not stopped",
        "while len(self.producers):",
        "if len(self.producers):",
        f"{_T}/test_schedule.py",
    ),
    _anywhere(
        "on_abandoned=cancel is accepted on a shared log",
        'if on_abandoned == "cancel" and self._log.shared:',
        "if False:",
        f"{_T}/engine/test_agent.py",
    ),
)

_IN_THE_LIMITS = (
    _mutant(
        "http/_rate_limit.py",
        "the last token is never given",
        "if wait > 0:",
        "if wait >= 0:",
        f"{_LIMITS}::test_giving_back_what_was_never_taken_changes_nothing",
    ),
    _mutant(
        "http/_rate_limit.py",
        "a token that is given back leaves its key in the table",
        "        if full_at > now:\n            self._full_at[key] = full_at\n        else:\n"
        "            self._full_at.pop(key, None)",
        "        self._full_at[key] = full_at",
        f"{_LIMITS}::test_giving_back_what_was_never_taken_changes_nothing",
    ),
    _mutant(
        "http/_rate_limit.py",
        "a wait in whole seconds is too short",
        "-(-wait // _SECOND)",
        "wait // _SECOND",
        f"{_LIMITS}::test_a_wait_is_told_in_whole_seconds_and_never_too_short",
    ),
    _mutant(
        "http/_rate_limit.py",
        "idle keys are never forgotten",
        "if len(self._full_at) >= self._sweep_at:",
        "if False:",
        f"{_LIMITS}::test_idle_keys_are_forgotten",
    ),
    _mutant(
        "http/_rate_limit.py",
        "a full table is swept with every new key",
        "max(_FEW, 2 * len(self._full_at))",
        "_FEW",
        f"{_LIMITS}::test_a_full_table_is_swept_only_when_it_has_doubled",
    ),
)

_IN_THE_CURSOR = (
    _mutant(
        "http/_cursor.py",
        "a position may have something behind it",
        "_CURSOR.fullmatch(value)",
        "_CURSOR.match(value)",
        f"{_CURSOR}::test_refuses_everything_else",
    ),
    _mutant(
        "http/_cursor.py",
        "a position may begin with zeros",
        "(0|[1-9][0-9]{0,17})",
        "([0-9]{1,18})",
        f"{_CURSOR}::test_refuses_everything_else",
    ),
    _mutant(
        "http/_cursor.py",
        "a position in capitals is refused",
        "re.ASCII | re.IGNORECASE",
        "re.ASCII",
        f"{_CURSOR}::test_accepts_these_forms_and_nothing_else",
    ),
)

_IN_THE_FRAMES = (
    _mutant(
        "engine/_packets.py",
        "a text of any size is a packet",
        "    _check_size(payload)\n",
        "",
        f"{_FRAMES}::test_text_that_cannot_be_sent_is_refused",
    ),
    _mutant(
        "engine/_packets.py",
        "an event of any size is a packet",
        "        _check_size(data)\n",
        "",
        f"{_FRAMES}::test_what_does_not_fit_is_refused",
    ),
    _mutant(
        "engine/_packets.py",
        "the limit of a packet leaves no room for the envelope",
        "DEFAULT_MAX_EVENT_BYTES - _ENVELOPE_BYTES",
        "DEFAULT_MAX_EVENT_BYTES",
        f"{_FRAMES}::test_the_largest_packet_is_one_that_readers_accept",
    ),
    _mutant(
        "engine/_packets.py",
        "a moment in UTC is written with an offset",
        'if moment.endswith("+00:00"):',
        "if False:",
        f"{_FRAMES}::test_a_text_frame_equals_the_model",
    ),
)

_IN_THE_TURNS = (
    _mutant(
        "engine/_conversation.py",
        "the last answer counts as new",
        "            start = index\n    return messages[start:]",
        "            start = index - 1\n    return messages[start:]",
        f"{_TURNS}::test_only_messages_after_the_last_answer_are_new",
    ),
    _mutant(
        "engine/_conversation.py",
        "a complete answer without text is no message",
        "if error is not None and not answer:",
        "if not answer:",
        f"{_TURNS}::test_a_turn_comes_back_as_it_was_kept",
    ),
    _mutant(
        "engine/_conversation.py",
        "the mark of a failure goes to the question",
        'if not messages or messages[-1]["role"] != Role.ASSISTANT:',
        "if not messages:",
        f"{_TURNS}::test_the_mark_of_a_failure_is_on_an_answer",
    ),
    _mutant(
        "engine/_conversation.py",
        "the mark of a failure becomes a message",
        "        messages.pop()\n",
        "        pass\n",
        _TURNS,
    ),
    _mutant(
        "engine/_conversation.py",
        "the first user message is the question",
        "for m in reversed(messages)",
        "for m in messages",
        f"{_TURNS}::test_the_question_is_the_text_of_the_last_user_message",
    ),
)

_IN_THE_HEAD = (
    _mutant(
        "http/_hosts.py",
        "an encoded slash is a slash",
        "    if not slash:\n",
        "    if True:\n",
        f"{_T}/http/test_root_path.py",
    ),
    _mutant(
        "http/_hosts.py",
        "the path of every API may have an encoded slash",
        "if path.startswith(_MODELS) and",
        "if",
        f"{_T}/http/test_root_path.py",
    ),
    _mutant(
        "openai/_shared.py",
        "a response is looked for at the first agent only",
        "for model, principal in allowed if principal == owner)",
        "for model, principal in allowed)",
        f"{_T}/test_group.py",
    ),
    _mutant(
        "group.py",
        "two agents may have the same path",
        "        if agent_id in found:\n",
        "        if False:\n",
        f"{_T}/test_group.py",
    ),
    _mutant(
        "observe/_log_lines.py",
        "the access log has the values of queries",
        "target = without_query_values(str(arguments[_PATH_AT]))",
        "target = str(arguments[_PATH_AT])",
        f"{_T}/observe/test_access_lines.py",
    ),
    _mutant(
        "engine/_producer.py",
        "a stream that was handed over is a lost lease",
        "        if self._released:\n            self.meter.handed_over()\n",
        "        if self._released:\n            self.meter.lease_lost()\n",
        f"{_T}/durable/test_durable_metrics.py",
    ),
)

MUTANTS = (
    *_IN_THE_HEAD,
    *_IN_THE_APPENDER,
    *_IN_THE_PRODUCERS,
    *_IN_THE_READER,
    *_FOR_REQUESTS,
    *_IN_THE_RUNTIME,
    *_IN_THE_LIMITS,
    *_IN_THE_CURSOR,
    *_IN_THE_FRAMES,
    *_IN_THE_TURNS,
)
