// The wire cases that also prove the Python client: tests/cap/cases/README.md describes them.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { describe, test } from "node:test";
import { KEY, load, Paper, paperClient, readAll, REQUEST, ROOT, withIds } from "./support.js";

const CASES = "tests/cap/cases";
const OTHER_FILES = ["faults.json", "disconnects.json"];
const MILLISECONDS = ["reconnect_for", "deadline"];
const NAMES = {
  max_retries: "maxRetries", reconnect_for: "reconnectFor", deadline: "deadline",
  strict_sequence: "strictSequence", max_event_bytes: "maxEventBytes",
};

/** Returns the options of the Python machine as those of this client. */
function clientOptions({ position, jitter = 0, ...given }) {
  const options = { maxRetries: 3, reconnectFor: 0, random: () => jitter };
  for (const [name, value] of Object.entries(given)) {
    options[NAMES[name]] = MILLISECONDS.includes(name) ? value * 1000 : value;
  }
  return options;
}

const files = readdirSync(`${ROOT}${CASES}`)
  .filter((name) => name.endsWith(".json") && !OTHER_FILES.includes(name));

for (const file of files) {
  const { about, cases } = load(`${CASES}/${file}`);
  describe(about, () => {
    for (const item of cases) test(item.name, () => play(item));
  });
}

test("the cases are found", () => assert.ok(files.length >= 9));

async function play({ options = {}, connections, expect }) {
  const expected = { text: "", error: null, fields: {}, cause: false, ...withIds(expect) };
  const script = [...connections];
  const paper = new Paper(() => script.shift());
  const client = paperClient(paper, clientOptions(options));
  const start = options.position ? withIds(options.position) : null;
  const stream = client.resume(REQUEST, start);
  const { items, error } = await readAll(stream);
  const seen = observe(items, error, stream, paper);
  for (const name of Object.keys(expected).filter((key) => Object.hasOwn(seen, key))) {
    assert.deepEqual(seen[name], expected[name], `${name}: ${error?.stack}`);
  }
  assert.deepEqual(script, [], "not all connections were used");
  checkRequests(paper, expected);
  checkError(error, connections, expected);
}

function observe(items, error, stream, paper) {
  return {
    seqs: items.map(({ seq }) => seq),
    text: items.map(({ p }) => p).filter((p) => typeof p === "string").join(""),
    streams: items.map(({ stream_id }) => stream_id),
    cursors: paper.cursors,
    waits: paper.waits,
    position: positionOf(stream.position),
    complete: stream.complete,
    reconnects: stream.reconnects,
    urls: paper.requests.map(({ url }) => url),
    error: error && error.name,
    cause: Boolean(error?.cause),
    fields: error ? fieldsOf(error) : {},
  };
}

const positionOf = (position) =>
  position && { stream_id: position.streamId, seq: position.seq, cursor: position.lastEventId };

function fieldsOf(error) {
  const fields = {
    attempts: error.name === "CAPConnectionError" ? error.attempts : null,
    status_code: error.statusCode,
    retry_after: error.retryAfter,
    body: error.body,
    stream_error: error.streamError,
    expected: error.expected,
    received: error.received,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => (value ?? null) !== null));
}

/** Every attempt sends the same request; only our own origin gets credentials. */
function checkRequests({ requests }, { bare = [] }) {
  for (const [number, { method, headers, body }] of requests.entries()) {
    assert.equal(method, "POST");
    assert.deepEqual(JSON.parse(body), REQUEST);
    assert.equal(headers.get("x-request-id"), REQUEST.request_id);
    const isBare = bare[number] ?? false;
    assert.equal(headers.get("authorization"), isBare ? null : `Bearer ${KEY}`);
    assert.equal(headers.has("x-team"), !isBare);
  }
}

function checkError(error, connections, { message = [], position }) {
  if (!error) return;
  assert.deepEqual(positionOf(error.position), position);
  for (const words of message) assert.ok(error.message.includes(words), error.message);
  if (error.statusCode === null) return;
  for (const [name, value] of Object.entries(connections.at(-1).headers ?? {})) {
    assert.equal(error.headers.get(name), value);
  }
}
