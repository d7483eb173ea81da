// The decoder, against the wire tables of the Python decoder, and at its limits.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { SSEDecoder, SSEEventTooLarge } from "../coreason.js";
import { load } from "./files.js";
import { bytes, join } from "./support.js";

function decode(chunks, decoder = new SSEDecoder()) {
  const events = [];
  try {
    for (const chunk of chunks) {
      for (const { event, data, id } of decoder.events(chunk)) events.push([event, data, id]);
    }
  } catch (error) {
    if (!(error instanceof SSEEventTooLarge)) throw error;
    return { events, tooLarge: true };
  }
  return { events, lastId: decoder.lastEventId, retry: decoder.retryMs };
}

function pieces(wire, size) {
  const found = [];
  for (let at = 0; at < wire.length; at += size) found.push(wire.subarray(at, at + size));
  return found;
}

for (const file of ["standard", "platform", "corners"]) {
  const { about, cases } = load(`tests/sse/cases/${file}.json`);
  describe(about, () => {
    for (const row of cases) test(row.name, () => play(row));
  });
}

/** Each row is decoded whole, in small pieces, and with a cut at every place. */
function play({ wire: text, hex, events, last_id: lastId = "", retry = null }) {
  const wire = hex ? Uint8Array.from(Buffer.from(hex, "hex")) : bytes(text);
  const full = events.map((event) => (Array.isArray(event) ? event : ["message", event, ""]));
  const expected = { events: full, lastId, retry };
  for (const size of [1, 2, 3, 4, 7, 10_000]) {
    assert.deepEqual(decode(pieces(wire, size)), expected, `in pieces of ${size}`);
  }
  for (let at = 0; at <= wire.length; at += 1) {
    const chunks = [wire.subarray(0, at), new Uint8Array(0), wire.subarray(at)];
    assert.deepEqual(decode(chunks), expected, `cut at ${at}`);
  }
}

describe("limits", () => {
  const LIMIT = 100;
  for (const { name, fits, passes } of load("tests/sse/cases/limits.json").cases) {
    test(name, () => {
      for (const [wire, tooLarge] of [[fits, undefined], [passes, true]]) {
        for (const end of ["\n\n", "\r\r"]) {
          for (const size of [1, 2, 13, LIMIT, LIMIT + 1, 10_000]) {
            const chunks = pieces(bytes(`data: before\n\n${wire}${end}`), size);
            const read = decode(chunks, new SSEDecoder(LIMIT));
            assert.deepEqual(read.events[0], ["message", "before", ""]);
            assert.equal(read.tooLarge, tooLarge, `${wire.length} in pieces of ${size}`);
          }
        }
      }
    });
  }

  test("data outside ASCII is counted in bytes", () => {
    const read = (text) => decode([bytes(`data: ${text}\n\n`)], new SSEDecoder(LIMIT));
    assert.equal(read("é".repeat(50)).tooLarge, undefined);
    assert.equal(read(`${"é".repeat(50)}x`).tooLarge, true);
  });

  // proves: JS-decoder-limit
  test("a line that never ends is refused", () => {
    for (const start of ["data: ", ": ", "id: "]) {
      const read = decode(pieces(bytes(start + "x".repeat(200)), 3), new SSEDecoder(LIMIT));
      assert.deepEqual(read, { events: [], tooLarge: true });
    }
  });

  test("the error has the limit", () => {
    const decoder = new SSEDecoder(1);
    const read = () => [...decoder.events(bytes("data: 12\n\n"))];
    assert.throws(read, { name: "SSEEventTooLarge", limit: 1, message: /maxEventBytes/ });
  });

  test("many lines without data are not too large", () => {
    const wire = `${": comment\n".repeat(1000)}data: x\n\n`;
    assert.equal(decode([bytes(wire)], new SSEDecoder(LIMIT)).events.length, 1);
  });
});

test("an event comes out with its last byte and not before", () => {
  for (const wire of ["data: x\n\n", "data: x\r\r", "data: x\r\n\r", "data: x\n\r"]) {
    const decoder = new SSEDecoder();
    const counts = pieces(bytes(wire), 1).map((byte) => [...decoder.events(byte)].length);
    assert.deepEqual(counts, [...Array(wire.length - 1).fill(0), 1]);
  }
});

test("a reconnection time takes effect before its block ends", () => {
  assert.equal(decode([bytes("data: x\nretry: 7\n")]).retry, 7);
  assert.equal(decode([bytes("retry: 7")]).retry, null);
});

test("an id of the connection before stays in effect", () => {
  const wire = bytes("data: a\n\nid: 8\ndata: b\n\n");
  const { events } = decode([wire], new SSEDecoder(100, "7"));
  assert.deepEqual(events.map(([, , id]) => id), ["7", "8"]);
});

test("data that is not UTF-8 is marked, and its size is counted in bytes", () => {
  const wire = join([bytes("data: é"), Uint8Array.of(0xff), bytes("\n\ndata: é\ndata: é\n\n")]);
  const [first, second] = [...new SSEDecoder().events(wire)];
  assert.deepEqual([first.valid, first.data, first.bytes], [false, "é\ufffd", 3]);
  assert.deepEqual([second.valid, second.data, second.bytes], [true, "é\né", 5]);
});
