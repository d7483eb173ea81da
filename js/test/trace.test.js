// The events that onTrace reports, which the timeline of the inspector is drawn from.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Paper, paperClient, readAll, REQUEST, STREAMS } from "./support.js";

const { A } = STREAMS;
const CLIENT_OPTIONS = { maxRetries: 3 };

/** Returns the events of a stream without their times. */
async function traced(connections, options) {
  const events = [];
  const script = [...connections];
  const paper = new Paper(() => script.shift());
  const client = paperClient(paper, { ...CLIENT_OPTIONS, onTrace: (event) => events.push(event) });
  await readAll(client.resume(REQUEST, null, options));
  const times = events.map(({ at }) => at);
  assert.deepEqual(times, [...times].sort((a, b) => a - b));
  return events.map(({ at: _, ...event }) => event);
}

/** Returns an event in short: its connection, its type and what is special about it. */
function short({ type, connection, packet, bytes, requestId, streamId, ...rest }) {
  return [connection, type, ...(packet ? [packet.op, packet.seq] : []), rest];
}

// proves: JS-trace
test("a stream with all that can happen", async () => {
  const rewind = { seq: 5, op: "EVENT", p: { type: "REWIND", data: { to_seq: 3 } } };
  const events = await traced([
    { chunks: ["w1", "w1", "w3"] },
    { chunks: ["w2", "WARNING3"], end: "reset" },
    { chunks: ["TRANSIENT4"] },
    { status: 503, headers: { "retry-after": "7" } },
    { chunks: [rewind, "close6"] },
  ]);
  const id = (seq) => ({ id: `${A}:${seq}`, event: "message" });
  const error = (severity) => ({ code: "busy", message: "too much", severity });
  const cut = events.filter(({ type }) => type === "cut");
  assert.match(cut[0].reason, /seq 3 came after seq 1/);
  assert.match(cut[1].reason, /reset/);
  assert.equal(cut[1].error.name, "TypeError");
  assert.deepEqual(cut[2].error, error("TRANSIENT"));
  assert.match(cut[3].reason, /HTTP 503/);
  assert.deepEqual(cut[3].error, null);
  assert.deepEqual(events.filter(({ type }) => type !== "cut").map(short), [
    [1, "connect", { cursor: null }],
    [1, "open", { status: 200 }],
    [1, "packet", "DELTA", 1, id(1)],
    [1, "duplicate", "DELTA", 1, { id: `${A}:1` }],
    [1, "gap", { expected: 2, received: 3 }],
    [1, "wait", { seconds: 0.5, attempt: 1 }],
    [2, "connect", { cursor: `${A}:1` }],
    [2, "open", { status: 200 }],
    [2, "packet", "DELTA", 2, id(2)],
    [2, "packet", "ERROR", 3, id(3)],
    [2, "warning", { error: error("WARNING") }],
    [2, "wait", { seconds: 0.5, attempt: 1 }],
    [3, "connect", { cursor: `${A}:3` }],
    [3, "open", { status: 200 }],
    [3, "packet", "ERROR", 4, id(4)],
    [3, "wait", { seconds: 1, attempt: 2 }],
    [4, "connect", { cursor: `${A}:4` }],
    [4, "open", { status: 503 }],
    [4, "wait", { seconds: 7, attempt: 3 }],
    [5, "connect", { cursor: `${A}:4` }],
    [5, "open", { status: 200 }],
    [5, "packet", "EVENT", 5, id(5)],
    [5, "rewind", { from: 5, to: 3 }],
    [5, "packet", "CLOSE", 6, id(6)],
    [5, "end", { outcome: "close" }],
  ]);
});

test("the head of a response and the size of a packet are reported", async () => {
  const headers = { "content-type": "text/event-stream", "x-request-id": "r", "x-stream-id": A };
  const events = await traced([{ headers, chunks: ["w1", "close2"] }]);
  assert.deepEqual([events[1].requestId, events[1].streamId], ["r", A]);
  assert.equal(events[2].bytes, JSON.stringify(events[2].packet).length);
});

test("the end says how a stream ended, and comes once", async () => {
  const outcomes = {
    close: [{ chunks: ["close1"] }],
    fatal: [{ chunks: ["w1", "FATAL2"] }],
    error: [{ status: 401 }],
  };
  for (const [outcome, connections] of Object.entries(outcomes)) {
    const ends = (await traced(connections)).filter(({ type }) => type === "end");
    assert.deepEqual(ends, [{ type: "end", connection: 1, outcome }]);
  }
  const left = await traced([], { signal: AbortSignal.abort() });
  assert.deepEqual(left, [{ type: "end", connection: 0, outcome: "left" }]);
});

test("a reason does not repeat the key", async () => {
  const events = await traced([{ chunks: ["w1"] },
    { status: 503, body: '{"detail": "sk_very_secret is busy"}' }, { chunks: ["close2"] }]);
  const [, { reason }] = events.filter(({ type }) => type === "cut");
  assert.match(reason, /\*\*\* is busy/);
});
