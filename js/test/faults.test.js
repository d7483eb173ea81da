// The fault table: every row, against the server that has these faults.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { CAPClient } from "../coreason.js";
import { startFaultServer } from "./fault_server.js";
import { load, readAll, REQUEST } from "./support.js";

const OPTIONS = {
  key: "sk_secret", timeout: 4000, maxRetries: 3, deadline: 20_000,
  backoff: { first: 10, longest: 20 }, // the real one is shown elsewhere and takes time
};

const runs = [];
let server;
before(async () => {
  server = await startFaultServer();
});
after(() => server.stop());

const isTransient = ({ p }) => ["TRANSIENT", "FATAL"].includes(p.severity);

describe("every row of the fault table", { concurrency: 8 }, () => {
  for (const row of load("tests/cap/cases/faults.json").cases) test(row.name, () => play(row));
});

async function play(row) {
  const run = await server.run(row.fault, row.options);
  runs.push(run);
  const deadline = row.fault === "hung_with_heartbeats" ? 700 : OPTIONS.deadline;
  const stream = new CAPClient(run.url, { ...OPTIONS, deadline }).assist(REQUEST);
  const { items, error } = await readAll(stream);

  const expected = run.packets.filter((packet) => !isTransient(packet)).map(({ seq }) => seq);
  assert.equal(error?.name, row.error, error?.stack);
  assert.deepEqual(items.map(({ seq }) => seq), expected.slice(0, row.delivered));
  assert.equal(stream.complete, !row.error);
  assert.equal(stream.status, row.error ? "failed" : "done");
  if (row.reconnects !== undefined) assert.equal(stream.reconnects, row.reconnects);
  if (row.error) checkPosition(error, items);

  const { requests, errors } = await server.report(run);
  assert.deepEqual(errors, []);
  if (row.requests !== undefined) assert.equal(requests.length, row.requests);
  checkRequests(requests);
  assert.ok(!`${error?.stack}`.includes("sk_secret"));
}

function checkPosition({ position }, items) {
  if (!items.length) {
    assert.equal(position, null);
    return;
  }
  assert.equal(position.streamId, items[0].stream_id);
  assert.ok(position.seq >= items.at(-1).seq);
}

/** All attempts send the same request; no other origin gets the key. */
function checkRequests(requests) {
  for (const { method, body, headers, origin } of requests) {
    assert.equal(method, "POST");
    assert.deepEqual(JSON.parse(body), REQUEST);
    assert.equal(headers["x-request-id"], REQUEST.request_id);
    assert.equal(headers["cache-control"], "no-cache");
    assert.equal("authorization" in headers, origin === requests[0].origin);
  }
}

// Node.js keeps idle connections for four seconds, so this waits once and not in every row.
test("no connection was left open", async () => {
  for (const run of runs) assert.ok(await server.allClosed(run), run.id);
});

test("a reconnect transfers only what was missed", async () => {
  const run = await server.run("rst_mid_event");
  assert.equal((await readAll(new CAPClient(run.url, OPTIONS).assist(REQUEST))).error, null);
  const { requests } = await server.report(run);
  assert.match(requests[1].headers["last-event-id"], new RegExp(`^${run.stream_id}:[1-8]$`));
});

test("the delay that the server asks for is honoured", async () => {
  const run = await server.run("status_on_reconnect", { status: 503, retry_after: "0.3" });
  assert.equal((await readAll(new CAPClient(run.url, OPTIONS).assist(REQUEST))).error, null);
  const { delays } = await server.report(run);
  assert.ok(delays[1] >= 0.299, `${delays}`);
});

test("a stream may break again and again as long as there is progress", async () => {
  const run = await server.run("rst_mid_event",
    { packets: 40, fault_after: 2, times: 10 ** 6, every: 2 });
  const stream = new CAPClient(run.url, OPTIONS).assist(REQUEST);
  const { items, error } = await readAll(stream);
  assert.equal(error, null);
  assert.equal(items.length, 41);
  assert.ok(stream.reconnects > 10);
});
