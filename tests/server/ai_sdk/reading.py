"""The rules by which a page reads chunks, as a model in Python.

A part begins before its pieces, a call before its result, and there is one `finish`, at the end.
The real SDK is less strict in some points, and must come to the same message.
"""

from typing import Any, Final

Chunk = dict[str, Any]

_ENDS: Final = ("error", "abort")
_NAMES: Final = {"text": "text", "reasoning": "reasoning"}


class Reader:
    """Reads the chunks of one body, for a message that may have parts already."""

    def __init__(self, parts: list[Chunk] | None = None) -> None:
        self.parts: list[Chunk] = [{**part} for part in parts or ()]
        self.metadata: dict[str, Any] = {}
        self._open: dict[str, Chunk] = {}
        self._used: set[str] = set()
        self._has_ended = False
        self._has_failed = False

    def read(self, chunks: list[Chunk]) -> list[Chunk]:
        """Return the parts of the message."""
        first, *others = chunks
        assert first["type"] == "start"
        assert first["messageId"]
        for chunk in others:
            assert not self._has_ended
            self._add(chunk)
        assert self._has_ended
        return self.parts

    def _add(self, chunk: Chunk) -> None:
        kind = chunk["type"]
        if self._has_failed:
            assert kind == "finish"
        if kind.startswith("data-"):
            self._add_data(chunk)
        elif kind.startswith("tool-"):
            self._add_tool(chunk)
        elif kind.partition("-")[0] in _NAMES:
            self._add_text(chunk)
        else:
            self._add_other(chunk)

    def _add_other(self, chunk: Chunk) -> None:
        match chunk["type"]:
            case "start-step":
                assert not self._open
                self.parts.append({"type": "step-start"})
            case "finish-step":
                assert not self._open
            case "reset-step":
                self._open.clear()
                steps = [n for n, part in enumerate(self.parts) if part["type"] == "step-start"]
                del self.parts[steps[-1] + 1 :]
            case "source-url" | "file":
                self.parts.append({**chunk})
            case "message-metadata":
                self.metadata |= chunk["messageMetadata"]
            case "error" | "abort":
                self._has_failed = True
            case "finish":
                self.metadata |= chunk.get("messageMetadata", {})
                self._has_ended = True
            case other:
                raise AssertionError(f"unknown chunk {other}")

    def _add_text(self, chunk: Chunk) -> None:
        name, _, what = chunk["type"].partition("-")
        part_id = chunk["id"]
        if what == "start":
            assert part_id not in self._used
            self._used.add(part_id)
            part = {"type": name, "text": "", "state": "streaming"}
            self._open[part_id] = part
            self.parts.append(part)
            return
        part = self._open[part_id]
        assert part["type"] == name
        if what == "delta":
            part["text"] += chunk["delta"]
        else:
            assert what == "end"
            part["state"] = "done"
            del self._open[part_id]

    def _add_data(self, chunk: Chunk) -> None:
        if chunk.get("transient"):
            return
        for part in self.parts:
            if "id" in chunk and (part["type"], part.get("id")) == (chunk["type"], chunk["id"]):
                part["data"] = chunk["data"]
                return
        self.parts.append({**chunk})

    def _add_tool(self, chunk: Chunk) -> None:
        if chunk["type"] == "tool-input-available":
            self._add_call(chunk)
        elif chunk["type"] == "tool-approval-response":
            [part] = [
                p for p in self.parts if p.get("approval", {}).get("id") == chunk["approvalId"]
            ]
            part["state"] = "approval-responded"
            answered = {name: chunk[name] for name in ("approved", "reason") if name in chunk}
            part["approval"] = {**part["approval"], **answered}
        else:
            self._add_result(chunk)

    def _add_call(self, chunk: Chunk) -> None:
        assert chunk["dynamic"] is chunk["providerExecuted"] is True
        assert chunk["toolCallId"] not in [part.get("toolCallId") for part in self._step()]
        names = ("toolName", "toolCallId", "input", "providerExecuted")
        part = {"type": "dynamic-tool", "state": "input-available"}
        self.parts.append({**part, **{name: chunk[name] for name in names}})

    def _add_result(self, chunk: Chunk) -> None:
        called = [part for part in self.parts if part.get("toolCallId") == chunk["toolCallId"]]
        part = called[-1]  # a result needs a call
        assert part["state"] in ("input-available", "approval-requested", "approval-responded")
        match chunk["type"]:
            case "tool-approval-request":
                part["state"] = "approval-requested"
                part["approval"] = {"id": chunk["approvalId"]}
            case "tool-output-available":
                part["state"], part["output"] = "output-available", chunk["output"]
            case "tool-output-error":
                part["state"], part["errorText"] = "output-error", chunk["errorText"]
            case other:
                raise AssertionError(f"unknown chunk {other}")

    def _step(self) -> list[Chunk]:
        steps = [n for n, part in enumerate(self.parts) if part["type"] == "step-start"]
        return self.parts[steps[-1] :]


def plain(parts: list[Chunk]) -> list[Chunk]:
    """Return parts without the ids of thoughts, which only a body numbers.

    The beginning of a step is not shown before something follows it.
    """
    found = []
    for part in parts:
        left_out = "id" if part["type"] == "reasoning" else None
        found.append({name: value for name, value in part.items() if name != left_out})
    while found and found[-1] == {"type": "step-start"}:
        found.pop()
    return found
