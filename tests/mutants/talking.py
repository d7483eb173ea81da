"""Mutants of what reaches a running agent: approvals, answers, the inbox, and second messages."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_ENGINE = "coreason_client/server/engine"
_DURABLE = "coreason_client/server/durable"
_TOOLS = "coreason_client/llm/tools"
_QUESTIONS = "tests/server/engine/test_answered_questions.py"
_APPROVE = "tests/server/durable/test_approve.py"
_INBOX = "tests/server/test_inbox.py"
_BUSY = "tests/server/test_on_busy.py"
_FOLLOWING = "tests/server/test_following.py"
_APPROVALS = "tests/llm/tools/test_approvals.py"
_AGENT = "tests/agents/test_approvals.py"

MUTANTS = (
    Mutant(
        "a yes with a condition is a yes",
        f"{_ENGINE}/_conversation.py",
        "approved = word in _YES and not rest",
        "approved = word in _YES",
        (_QUESTIONS,),
    ),
    Mutant(
        "arguments of a denied call are used",
        f"{_ENGINE}/_conversation.py",
        'arguments = given.get("arguments") if approved else None',
        'arguments = given.get("arguments")',
        (_QUESTIONS,),
    ),
    Mutant(
        "every answer to a question counts",
        f"{_ENGINE}/_writer.py",
        "return answer if await answering_stream(log, place, stream_id) == stream_id else None",
        "return answer",
        (_QUESTIONS,),
    ),
    Mutant(
        "a question cannot be answered again after a failure",
        f"{_ENGINE}/_writer.py",
        "approves or (await log.meta(claim)).outcome in (None, COMPLETE):",
        "await log.meta(claim):",
        (_QUESTIONS,),
    ),
    Mutant(
        "a yes counts again if its turn has failed",
        f"{_ENGINE}/_writer.py",
        "or approves or (await log.meta(claim))",
        "or (await log.meta(claim))",
        (_QUESTIONS, _AGENT),
    ),
    Mutant(
        "a producer that has lost its stream seals the inbox",
        f"{_ENGINE}/_inbox.py",
        "if found.get(_SEAL, 0) >= epoch:",
        "if _SEAL in found:",
        (_INBOX,),
    ),
    Mutant(
        "an agent that ends its stream itself does not name what it has not read",
        f"{_ENGINE}/_writer.py",
        "            frame = await self._last_frame(op, packet.p)\n",
        "",
        (_INBOX,),
    ),
    Mutant(
        "a message is accepted before it has its place",
        "coreason_client/server/http/_admission.py",
        "            await order.enter(facts.principal,",
        "            order.enter(facts.principal,",
        (_BUSY,),
    ),
    Mutant(
        "deaths while a message waits count as its restarts",
        f"{_ENGINE}/_order.py",
        "                await stream._steps.waits()\n",
        "",
        (_BUSY,),
    ),
    Mutant(
        "the question of a task is not stored",
        "coreason_client/server/a2a/_turn_log.py",
        "if known is None or conversation.session_id.startswith(_LISTS):",
        "if known is None:",
        ("tests/agents/test_official_clients.py",),
    ),
    Mutant(
        "arguments that stay are changed",
        f"{_TOOLS}/_run_machine.py",
        ' and approval.arguments != requested.call["arguments"]',
        "",
        (_APPROVALS,),
    ),
    Mutant(
        "the message behind a cancelled one overtakes those before it",
        f"{_ENGINE}/_order.py",
        "elif meta.last_seq > 1:",
        "else:",
        (_BUSY,),
    ),
    Mutant(
        "a message waits only for those of its own process",
        f"{_ENGINE}/_order.py",
        "                if meta.outcome is None:\n",
        "                if meta.outcome is None and self._find(stream_id) is not None:\n",
        (_BUSY,),
    ),
    Mutant(
        "a second message that came at the same time is not refused",
        f"{_ENGINE}/_order.py",
        'if self._policy == "reject":',
        "if False:",
        (_BUSY,),
    ),
    Mutant(
        "an agent gets a message twice",
        f"{_ENGINE}/_inbox.py",
        "            self._taken += len(found)\n",
        "            pass\n",
        (_INBOX,),
    ),
    Mutant(
        "a restarted agent begins with its first message",
        f"{_ENGINE}/_inbox.py",
        'return sum(done.value["taken"] for done in looks if done and done.outcome == "result")',
        "return 0 * len(list(looks))",
        (_INBOX,),
    ),
    Mutant(
        "a restarted agent sees messages earlier than before",
        f"{_ENGINE}/_steps.py",
        "        return True if replay.is_missing(path) else None\n",
        "        return replay.is_missing(path)\n",
        (_INBOX,),
    ),
    Mutant(
        "messages after the end are accepted",
        f"{_ENGINE}/_inbox.py",
        "            break\n",
        "            continue\n",
        (_INBOX,),
    ),
    Mutant(
        "a call is made without the approval that it needs",
        f"{_TOOLS}/_run_machine.py",
        'waiting = [one.call for one in asking if one.call["id"] not in self.approvals]',
        "waiting: list[ToolCall] = []",
        (_APPROVALS,),
    ),
    Mutant(
        "a run that waits has results for its calls",
        f"{_TOOLS}/_run_machine.py",
        "if self._calls and not isinstance(error, LLMApprovalRequired):",
        "if self._calls:",
        (_APPROVALS,),
    ),
    Mutant(
        "the model does not learn that the arguments were changed",
        f"{_TOOLS}/_run_machine.py",
        'text = bounded(f"{note}{output.text}", self._limits.max_result_chars)',
        "text = bounded(output.text, self._limits.max_result_chars)",
        (_APPROVALS,),
    ),
    Mutant(
        "an approved call that was interrupted is made again",
        f"{_TOOLS}/tool.py",
        '"fail" if tool.requires_approval else tool.on_restart,',
        "tool.on_restart,",
        (_AGENT,),
    ),
    Mutant(
        "a head is written to a connection that was lost",
        "coreason_client/server/_internals.py",
        "if data and not self._transport.is_closing():",
        "if data:",
        ("tests/server/http/test_direct_write.py",),
    ),
    Mutant(
        "an agent that waited is not marked as started",
        f"{_ENGINE}/_order.py",
        "            await log.tasks.start(stream_id, stream._writer._meta.epoch, question)\n",
        "",
        (_BUSY,),
    ),
    Mutant(
        "a server that stops ends the agents that wait",
        f"{_ENGINE}/_producers.py",
        "            if producer.meta.stream_id in waiting:\n",
        "            if False:\n",
        (_BUSY,),
    ),
    Mutant(
        "the history has messages that the agent did not get",
        f"{_ENGINE}/_inbox.py",
        "for message in messages[: self._taken]]",
        "for message in messages]",
        (_INBOX,),
    ),
    Mutant(
        "an answer is followed by itself",
        f"{_ENGINE}/_order.py",
        "listed.index(after) + 1",
        "listed.index(after)",
        (_FOLLOWING,),
    ),
    Mutant(
        "the rest of an answer that has ended is not followed",
        "coreason_client/server/cap/_routes.py",
        "if meta.outcome is None or cursor.seq < meta.last_seq:",
        "if meta.outcome is None:",
        (_FOLLOWING,),
    ),
    Mutant(
        "following a conversation does not continue at the position",
        "coreason_client/cap/_protocol.py",
        "last = begin if cursor is None else cursor",
        "last = cursor",
        (_FOLLOWING,),
    ),
    Mutant(
        "a reader that waits for an answer does not count",
        "coreason_client/server/http/_stream_response.py",
        "        self._reader = reader.hand_on()\n",
        "        self._reader = reader.hand_on()\n        self._reader.release()\n",
        (_FOLLOWING,),
    ),
    Mutant(
        "what was written before an approval is written again",
        f"{_DURABLE}/_approvals.py",
        "        return SKIP",
        "        return None",
        (_APPROVE,),
    ),
    Mutant(
        "a step that was not called before an approval runs",
        f"{_DURABLE}/_approvals.py",
        "if not isinstance(action, Finished):",
        "if False:",
        (_APPROVE,),
    ),
    Mutant(
        "an approval may be reached without the steps before it",
        f"{_DURABLE}/_approvals.py",
        "        super().end()\n        return self._after",
        "        return self._after",
        (_APPROVE,),
    ),
    Mutant(
        "the answer to one approval is that to another",
        f"{_DURABLE}/_approvals.py",
        'if known["shown"] != shown:',
        "if False:",
        (_APPROVE,),
    ),
    Mutant(
        "an approval is asked while a step runs",
        f"{_DURABLE}/_approvals.py",
        "if step.done is None:",
        "if False:",
        (_APPROVE,),
    ),
    Mutant(
        "ids change in the turn that answers",
        f"{_ENGINE}/_steps.py",
        'self._root, self._request = UUID(state["root"]), parse_stored(state["request"])',
        'self._request = parse_stored(state["request"])',
        (_APPROVE,),
    ),
    Mutant(
        "a restarted turn forgets that it answers an approval",
        f"{_ENGINE}/_steps.py",
        'answers = f"{APPROVAL}@{_ANSWER}" in steps',
        "answers = False",
        (_APPROVE,),
    ),
    Mutant(
        "a second answer to a question is accepted",
        "coreason_client/server/http/_admission.py",
        "if answering is not None and await self._find(request.request_id) is None:",
        "if False:",
        (_QUESTIONS,),
    ),
)
