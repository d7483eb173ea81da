// The fault table: every row, against the server that has these faults.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { CAPClient } from "../coreason.js";
import { OPTIONS, playRow } from "./fault_rows.js";
import { startFaultServer } from "./fault_server.js";
import { load } from "./files.js";
import { readAll, REQUEST } from "./support.js";

const runs = [];
let server;
before(async () => {
  server = await startFaultServer();
});
after(() => server.stop());

// proves: JS-faults
describe("every row of the fault table", { concurrency: 8 }, () => {
  for (const row of load("tests/cap/cases/faults.json").cases) {
    test(row.name, async () => {
      const { run, seen, expected } = await playRow(row, server);
      runs.push(run);
      assert.deepEqual(seen, expected);
    });
  }
});

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

// proves: JS-delay
test("the delay that the server asks for is honoured", async () => {
  const run = await server.run("status_on_reconnect", { status: 503, retry_after: "0.3" });
  assert.equal((await readAll(new CAPClient(run.url, OPTIONS).assist(REQUEST))).error, null);
  const { delays } = await server.report(run);
  assert.ok(delays[1] >= 0.299, `${delays}`);
});

// proves: JS-progress
test("a stream may break again and again as long as there is progress", async () => {
  const run = await server.run("rst_mid_event",
    { packets: 40, fault_after: 2, times: 10 ** 6, every: 2 });
  const stream = new CAPClient(run.url, OPTIONS).assist(REQUEST);
  const { items, error } = await readAll(stream);
  assert.equal(error, null);
  assert.equal(items.length, 41);
  assert.ok(stream.reconnects > 10);
});
