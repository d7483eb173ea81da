// Random disconnects from the plans that the Python client plays too: tests/cap/disconnects.py.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { bytes, load, packet, Paper, paperClient, readAll, REQUEST, sse } from "./support.js";

const STREAM_ID = "0d0d0d0d-0000-4000-8000-00000000000d";

function packets(words) {
  const all = [...words.map((word) => ["DELTA", word]), ["CLOSE", { reason: "done" }]];
  return all.map(([op, p], index) => packet(index + 1, op, p, STREAM_ID));
}

const body = (sent, withId) => bytes(sent.map((item) => sse(item, withId)).join(""));

/** Cuts data into chunks of these sizes, in turn. */
function pieces(data, sizes) {
  const found = [];
  for (let at = 0; at < data.length; at += found.at(-1).length) {
    found.push(data.subarray(at, at + sizes[found.length % sizes.length]));
  }
  return found;
}

/** Returns the connection of this number for a client that sends this cursor. */
function connect({ words, connections }, number, cursor) {
  const log = packets(words);
  const seen = cursor?.includes(":") ? Number(cursor.split(":").at(-1)) : 0;
  const step = connections[number];
  if (!step) return [body(log.slice(seen), true)];
  if (step.loss === "refused") return "refused";
  if (step.loss === "503" && number > 0) return "503"; // at first it would be final
  const first = step.repeats === null ? 0 : Math.max(seen - step.repeats, 0);
  return pieces(body(log.slice(first), step.ids).subarray(0, step.lost_after), step.chunks);
}

describe("every packet is delivered exactly once", () => {
  for (const plan of load("tests/cap/cases/disconnects.json").cases) {
    test(plan.name, async () => {
      const paper = new Paper(() => {
        const number = paper.requests.length - 1;
        const sent = connect(plan, number, paper.cursors.at(-1));
        if (sent === "refused") return { refused: "reset" };
        if (sent === "503") return { status: 503 };
        const chunks = sent.map((piece) => ({ hex: Buffer.from(piece).toString("hex") }));
        const isReset = plan.connections[number]?.loss === "reset";
        return isReset ? { chunks, end: "reset" } : { chunks };
      });
      const client = paperClient(paper, { maxRetries: 1000 });
      const { items, error } = await readAll(client.assist(REQUEST));
      assert.equal(error, null);
      assert.deepEqual(items, packets(plan.words));
      assert.ok(paper.requests.length <= plan.connections.length + 1);
    });
  }
});
