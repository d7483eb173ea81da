// What the client does around the resume machine: text, storage, leaving, keys, cancelling.

import assert from "node:assert/strict";
import { afterEach, describe, test } from "node:test";
import { CAPClient, CAPError, sessionPosition } from "../coreason.js";
import { body, bytes, KEY, packet, Paper, paperClient, readAll, REQUEST, sse, STREAMS }
  from "./support.js";

const { A, B } = STREAMS;
const at = (seq) => ({ streamId: A, seq, lastEventId: `${A}:${seq}` });
const rewind = (seq, to) => ({ seq, op: "EVENT", p: { type: "REWIND", data: { to_seq: to } } });

const BOUNDED = { timeout: 10_000 };

/** Returns a client and its network, which plays these connections one after the other. */
function play(connections, options) {
  const script = [...connections];
  const paper = new Paper(() => script.shift() ?? assert.fail("one connection too many"));
  return { paper, client: paperClient(paper, { maxRetries: 3, ...options }) };
}

function memoryStore() {
  const items = new Map();
  return {
    items,
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => void items.set(key, value),
    removeItem: (key) => void items.delete(key),
  };
}

describe("chat", () => {
  test("yields the text and collects the events", async () => {
    const event = { seq: 2, op: "EVENT", p: { type: "NOTE", data: 1 } };
    const { client, paper } = play([{ chunks: ["w1", event] }, { chunks: ["WARNING3", "w4", "close5"] }]);
    const stream = client.chat("Hello", { sessionId: "s1" });
    const { items, error } = await readAll(stream);
    assert.deepEqual([items, error], [["w1 ", "w4 "], null]);
    assert.deepEqual([stream.text, stream.events, stream.sessionId], ["w1 w4 ", [event.p], "s1"]);
    assert.deepEqual([stream.status, stream.complete, stream.reconnects], ["done", true, 1]);
    const sent = JSON.parse(paper.requests[0].body);
    assert.deepEqual(sent.payload.messages,
      [{ role: "user", parts: [{ type: "text", content: "Hello" }] }]);
    assert.deepEqual(sent.context, { session_id: "s1", user_id: "anonymous" });
    assert.equal(sent.payload.capabilities, undefined);
    assert.equal(paper.requests[0].headers.get("x-request-id"), sent.request_id);
  });

  test("ids are new UUIDs of version 4", () => {
    const { client } = play([]);
    const ids = Array.from({ length: 50 }, () => client.chatRequest("x").request_id);
    for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.equal(new Set(ids).size, 50);
  });

  test("text that became void is reported and dropped", async () => {
    const { client } = play([{ chunks: ["w1", "w2", "w3", rewind(4, 1), "w5", "close6"] }]);
    const stream = client.chat("Hello", { rewinds: true });
    const { items } = await readAll(stream);
    assert.deepEqual(items,
      ["w1 ", "w2 ", "w3 ", { text: "w1 ", toSeq: 1, whole: false }, "w5 "]);
    assert.equal(stream.text, "w1 w5 ");
    assert.ok(stream.request.payload.capabilities.supported_events.includes("REWIND"));
  });

  test("a rewind before the start of a resumed chat reads it again from the start", async () => {
    const log = ["w1", "w2", "w3", rewind(4, 1), "w5", "close6"];
    const { client, paper } = play([{ chunks: log.slice(2) }, { chunks: log }]);
    const request = client.chatRequest("Hello", { rewinds: true });
    const stream = client.resumeChat(request, at(2));
    const { items, error } = await readAll(stream);
    assert.equal(error, null);
    assert.deepEqual(items.slice(0, 2), ["w3 ", { text: "", toSeq: 0, whole: true }]);
    assert.equal(stream.text, "w1 w5 ");
    assert.deepEqual(paper.cursors, [`${A}:2`, A]);
    assert.equal(stream.status, "done");
  });

  const GONE = { status: 410, body: '{"type": "urn:coreason:problem:position-gone"}' };
  const ANEW = ["w1", { seq: 2, op: "DELTA", p: "zwei ", id: "{A}:2:9:2" }, "close3:9:2"];

  test("an answer that was written anew is read again with rewinds", async () => {
    const again = { text: "", toSeq: 0, whole: true };
    for (const lost of [GONE, { chunks: ["w4:9:2"] }]) {
      const { client, paper } = play([{ chunks: ["w1", "w2", "w3"] }, lost, { chunks: ANEW }]);
      const stream = client.chat("Hello", { rewinds: true });
      const { items, error } = await readAll(stream);
      assert.deepEqual([items, error], [["w1 ", "w2 ", "w3 ", again, "w1 ", "zwei "], null]);
      assert.deepEqual([stream.text, stream.complete, stream.reconnects], ["w1 zwei ", true, 2]);
      assert.deepEqual(paper.cursors, [null, `${A}:3`, A]);
    }
    const { client } = play([GONE, { chunks: ANEW }]);
    const request = client.chatRequest("Hello", { rewinds: true });
    const { items } = await readAll(client.resumeChat(request, at(3)));
    assert.deepEqual(items, [again, "w1 ", "zwei "]);
  });

  // proves: JS-anew
  test("an answer that was written anew is an error without rewinds, and the text stays", async () => {
    for (const [lost, name] of [[GONE, "CAPRuntimeError"], [{ chunks: ["w4:9:2"] }, "CAPStreamReset"]]) {
      const { client } = play([{ chunks: ["w1", "w2", "w3"] }, lost]);
      const stream = client.chat("Hello");
      const { error } = await readAll(stream);
      assert.deepEqual([error.name, error.position, stream.text], [name, at(3), "w1 w2 w3 "]);
    }
  });

  test("a rewind that nobody asked for is an error, and the text stays", async () => {
    const { client } = play([{ chunks: ["w1", "w2", rewind(3, 1), "w4", "close5"] }]);
    const stream = client.chat("Hello");
    const { items, error } = await readAll(stream);
    assert.deepEqual([items, error.name, stream.text], [["w1 ", "w2 "], "CAPStreamReset", "w1 w2 "]);
    assert.deepEqual([stream.position, error.position], [at(2), at(2)]); // a resume meets it again
    const { client: raw } = play([{ chunks: ["w1", "w2", rewind(3, 1), "w4", "close5"] }]);
    assert.equal((await readAll(raw.assist(REQUEST))).items.length, 5);
  });

  test("the text stays if nothing can be read again, and storage keeps its position", async () => {
    const storage = sessionPosition("x", memoryStore());
    const { client } = play([{ chunks: ["w1", "w2"] }, GONE, GONE], { storage });
    const stream = client.chat("Hello", { rewinds: true });
    const { items, error } = await readAll(stream);
    assert.deepEqual([items, error.statusCode, stream.text], [["w1 ", "w2 "], 410, "w1 w2 "]);
    assert.deepEqual([stream.position, storage.load().position], [at(2), at(2)]);
  });

  test("a stream that is followed is read again too", async () => {
    const traced = [];
    const { client } = play([{ chunks: ["w1", "w2", "w3"] }, GONE, { chunks: ANEW }]);
    const onTrace = (event) => traced.push(event);
    const { items } = await readAll(client.follow(A, { rewinds: true, onTrace }));
    assert.deepEqual(items.map(({ seq }) => seq), [1, 2, 3, 0, 1, 2, 3]);
    const { t, ...rewound } = items[3];
    assert.ok(!Number.isNaN(Date.parse(t)));
    assert.deepEqual(rewound, { stream_id: A, ...rewind(0, 0) });
    assert.deepEqual(traced.filter(({ type }) => type === "rewind").map(({ from, to }) => [from, to]), [[3, 0]]);
    assert.deepEqual(traced.filter(({ type }) => type === "cut").length, 2);
  });

  test("an event that only has the name of a rewind is an event", async () => {
    const event = { seq: 2, op: "EVENT", p: { type: "REWIND", data: { to_seq: "1" } } };
    const { client } = play([{ chunks: ["w1", event, "close3"] }]);
    const stream = client.chat("Hello", { rewinds: true });
    assert.deepEqual((await readAll(stream)).items, ["w1 "]);
    assert.equal(stream.events.length, 1);
  });

  test("a message is text", () => {
    assert.throws(() => play([]).client.chat({ text: "x" }), TypeError);
  });
});

describe("follow", () => {
  test("reads a stream by its id", async () => {
    const { client, paper } = play([{ chunks: ["w1"] }, { chunks: ["w2", "close3"] }]);
    const { items } = await readAll(client.follow(A));
    assert.deepEqual(items.map(({ seq }) => seq), [1, 2, 3]);
    assert.deepEqual(paper.cursors, [null, `${A}:1`]);
    for (const { method, url, body: sent } of paper.requests) {
      assert.deepEqual([method, url, sent], ["GET", `https://agent.example/streams/${A}`, undefined]);
    }
  });

  // proves: JS-follow
  test("continues after a position, also one of the Python client", async () => {
    for (const position of [at(1), { stream_id: A, seq: 1, cursor: `${A}:1` }]) {
      const { client, paper } = play([{ chunks: ["w2", "close3"] }]);
      const { items } = await readAll(client.follow(A, { position }));
      assert.deepEqual(items.map(({ seq }) => seq), [2, 3]);
      assert.deepEqual(paper.cursors, [`${A}:1`]);
    }
  });

  // proves: JS-no-splice
  test("accepts no other stream", async () => {
    const { client } = play([{ chunks: ["B:w1"] }]);
    const { error } = await readAll(client.follow(A));
    assert.deepEqual([error.name, error.expected, error.received], ["CAPStreamReset", A, B]);
  });

  test("a stream without further packets is complete, an unknown one is an error", async () => {
    const ended = play([{ status: 204 }]).client.follow(A);
    assert.deepEqual(await readAll(ended), { items: [], error: null });
    const { error } = await readAll(play([{ status: 404 }]).client.follow(A));
    assert.deepEqual([error.name, error.statusCode], ["CAPRuntimeError", 404]);
  });

  test("resume without a request is the same", async () => {
    const { client, paper } = play([{ chunks: ["close2"] }]);
    await readAll(client.resume(null, at(1)));
    assert.equal(paper.requests[0].method, "GET");
  });
});

describe("followConversation", () => {
  test("yields one answer after the other, after the position of the one before", async () => {
    const { client, paper } = play([
      { chunks: ["w1"] }, { chunks: ["w2", "close3"] }, { chunks: ["B:w1", "B:FATAL2"] }, { chunks: ["w1", "close2"] },
    ]);
    const seen = [];
    for await (const answer of client.followConversation("a/b c")) {
      const { items, error } = await readAll(answer);
      seen.push([items.map(({ stream_id, seq }) => [stream_id, seq]), error?.streamError?.severity ?? null]);
      if (seen.length === 3) break;
    }
    assert.deepEqual(seen, [
      [[[A, 1], [A, 2], [A, 3]], null],
      [[[B, 1]], "FATAL"],
      [[[A, 1], [A, 2]], null],
    ]);
    assert.deepEqual(paper.cursors, [null, `${A}:1`, `${A}:3`, `${B}:2`]);
    assert.deepEqual(new Set(paper.requests.map(({ method, url }) => `${method} ${url}`)),
      new Set(["GET https://agent.example/conversations/a/b%20c/events"]));
  });

  test("may be silent for long, and outlives a restart between two answers", async () => {
    const idle = { chunks: [{ text: ":\n\n" }], seconds: 60 };
    const down = [{ status: 503 }, ...Array(4).fill({ refused: "reset" })];
    const { client, paper } = play([
      ...Array(6).fill(idle), { chunks: ["w1", "close2"] }, ...down, { chunks: ["B:w1", "B:close2"] },
    ], { maxRetries: undefined });
    for await (const answer of client.followConversation("c")) {
      assert.equal((await readAll(answer)).error, null);
      if (answer.streamId === B) break;
    }
    assert.deepEqual(paper.waits, [0.5, 1, 2, 4, 8, 16, 0.5, 1, 2, 4, 8]);
    assert.deepEqual(paper.cursors, [...Array(7).fill(null), ...Array(6).fill(`${A}:2`)]);
  });

  test("a conversation that was never reached is an error", async () => {
    for (const [number, connection] of [[1, { status: 503 }], [4, { refused: "reset" }]]) {
      const { client, paper } = play(Array(4).fill(connection), { maxRetries: undefined });
      const { value: answer } = await client.followConversation("c").next();
      assert.notEqual((await readAll(answer)).error, null);
      assert.equal(paper.requests.length, number);
    }
  });

  test("begins after a position, also one of the Python client", async () => {
    for (const position of [at(1), { stream_id: A, seq: 1, cursor: `${A}:1` }, { stream_id: A, seq: 1 }]) {
      const { client, paper } = play([{ refused: "reset" }, { chunks: ["B:w1", "B:close2"] }]);
      for await (const answer of client.followConversation("c", { position })) {
        assert.deepEqual((await readAll(answer)).items.length, 2);
        break;
      }
      assert.deepEqual(paper.cursors, [`${A}:1`, `${A}:1`]);
    }
  });
});

describe("cancel", () => {
  // proves: JS-cancel
  test("sends DELETE, and again after a failure", async () => {
    const { client, paper } = play([{ refused: "reset" }, { status: 204 }]);
    await client.cancel(A);
    assert.deepEqual(paper.requests.map(({ method, url }) => [method, url]),
      Array(2).fill(["DELETE", `https://agent.example/streams/${A}`]));
    assert.equal(paper.requests[0].headers.get("authorization"), `Bearer ${KEY}`);
    assert.deepEqual(paper.waits, [0.5]);
  });

  test("has the headers of the stream's own call", async () => {
    const { client, paper } = play([{ chunks: ["w1"] }, { status: 204 }]);
    const stream = client.assist(REQUEST, { headers: { "X-Tenant": "t1" } });
    await stream.next();
    await stream.cancel();
    assert.deepEqual(paper.requests.map(({ headers }) => headers.get("x-tenant")), ["t1", "t1"]);
  });

  test("needs the id of a stream, so that no other path can be named", async () => {
    const { client, paper } = play([]);
    for (const id of [undefined, "", "..", "x"]) {
      await assert.rejects(client.cancel(id), { name: "TypeError", message: /must be a UUID/ });
      assert.throws(() => client.follow(id), /must be a UUID/);
    }
    assert.equal(paper.requests.length, 0);
  });

  test("a refusal is an error", async () => {
    const { client } = play([{ status: 404, body: '{"detail": "no such stream"}' }]);
    await assert.rejects(client.cancel(A), (error) => {
      assert.deepEqual([error.name, error.statusCode, error.method], ["CAPRuntimeError", 404, "DELETE"]);
      return /no such stream/.test(error.message);
    });
  });

  test("no answer is an error after the retries", async () => {
    const { client } = play(Array(3).fill({ refused: "reset" }), { maxRetries: 2 });
    await assert.rejects(client.cancel(A), { name: "CAPConnectionError", attempts: 3 });
  });

  test("touches neither storage nor trace", async () => {
    const storage = { save: assert.fail, clear: assert.fail };
    await play([{ status: 202 }], { storage, onTrace: assert.fail }).client.cancel(A);
  });

  test("a stream can be cancelled before its first packet", async () => {
    const headers = { "content-type": "text/event-stream", "x-stream-id": A };
    const { client, paper } = play([{ headers, chunks: ["w1", "close2"] }, { status: 204 }]);
    const stream = client.assist(REQUEST);
    await assert.rejects(stream.cancel(), CAPError);
    await stream.next();
    await stream.cancel();
    assert.equal(paper.requests[1].method, "DELETE");
  });
});

describe("send", () => {
  const stored = { status: 202, body: "{}" };
  const refusal = (status, detail) => ({ status, body: JSON.stringify({ detail }) });

  // proves: JS-send
  test("sends the message with an id that retries keep", async () => {
    const { client, paper } = play([{ refused: "reset" }, { status: 503 }, stored]);
    await client.send(A, "also in French", { headers: { "X-Tenant": "t1" } });
    const [first, ...again] = paper.requests.map(({ method, url, headers, body: sent }) =>
      ({ method, url, sent, headers: [...headers] }));
    assert.deepEqual([first.method, first.url], ["POST", `https://agent.example/streams/${A}/messages`]);
    const { id, ...rest } = JSON.parse(first.sent);
    assert.match(id, /^[0-9a-f-]{36}$/);
    assert.deepEqual(rest, { text: "also in French" });
    const headers = Object.fromEntries(first.headers);
    assert.deepEqual([headers.authorization, headers["content-type"], headers["x-tenant"], headers["x-team"]],
      [`Bearer ${KEY}`, "application/json", "t1", "blue"]);
    assert.deepEqual(again, [first, first]);
  });

  test("two messages have two ids, and one can be given", async () => {
    const { client, paper } = play(Array(3).fill(stored));
    await client.send(A, "x");
    await client.send(A, "x");
    await client.send(A, "x", { messageId: "mine" });
    const ids = paper.requests.map(({ body: sent }) => JSON.parse(sent).id);
    assert.deepEqual([new Set(ids).size, ids[2]], [3, "mine"]);
  });

  test("takes an open stream, once it has an id", async () => {
    const headers = { "content-type": "text/event-stream", "x-stream-id": A };
    const { client, paper } = play([{ headers, chunks: ["w1", "close2"] }, stored]);
    const stream = client.chat("Hello");
    await assert.rejects(client.send(stream, "x"), { name: "CAPError", message: /no id before/ });
    await stream.next();
    await client.send(stream, "x");
    assert.equal(paper.requests[1].url, `https://agent.example/streams/${A}/messages`);
    assert.deepEqual((await readAll(stream)).error, null);
  });

  for (const [status, detail] of [
    [409, "The stream has ended: send a new request."],
    [404, "This agent has no inbox."],
    [429, "A stream takes at most 100 messages, of 900,000 bytes together."],
  ]) {
    test(`a refusal with ${status} is an error with the sentence of the server`, async () => {
      const { client } = play([refusal(status, detail)]);
      await assert.rejects(client.send(A, "x"), (error) => {
        assert.deepEqual([error.name, error.statusCode, error.method], ["CAPRuntimeError", status, "POST"]);
        return error.message.endsWith(`HTTP ${status}: ${detail}`);
      });
    });
  }

  test("no answer is an error after the retries", async () => {
    const { client } = play(Array(3).fill({ refused: "reset" }), { maxRetries: 2 });
    await assert.rejects(client.send(A, "x"), { name: "CAPConnectionError", attempts: 3 });
  });

  test("a signal ends it, also between two attempts", BOUNDED, async () => {
    const silent = () => new Promise(() => {});
    const failing = async () => { throw new TypeError("fetch failed"); };
    for (const fetch of [silent, failing]) {
      const client = new CAPClient("https://agent.example", { fetch, backoff: { first: 60_000 } });
      const controller = new AbortController();
      const sent = client.send(A, "x", { signal: controller.signal });
      setTimeout(() => controller.abort("gone"), 30);
      await assert.rejects(sent, (reason) => reason === "gone");
    }
  });

  test("touches neither storage nor trace", async () => {
    const storage = { save: assert.fail, clear: assert.fail };
    await play([stored], { storage, onTrace: assert.fail }).client.send(A, "x");
  });

  test("a message is text, and a stream has an id", async () => {
    const { client, paper } = play([]);
    for (const text of [undefined, 1, {}]) {
      await assert.rejects(client.send(A, text), { name: "TypeError", message: /must be a string/ });
    }
    for (const id of [undefined, null, "..", "x"]) {
      await assert.rejects(client.send(id, "x"), { name: "TypeError", message: /must be a UUID/ });
    }
    assert.equal(paper.requests.length, 0);
  });
});

describe("storage", () => {
  // proves: JS-storage
  test("keeps request and position until the end", async () => {
    const store = memoryStore();
    const storage = sessionPosition("tab", store);
    const { client, paper } = play([{ chunks: ["w1", "w2"] }, { chunks: ["w2", "close3"] }], { storage });
    assert.equal(storage.load(), null);
    const stream = client.chat("Hello");
    const request = JSON.parse(JSON.stringify(stream.request));
    await stream.next();
    assert.deepEqual(storage.load(), { request, position: at(1) });
    await stream.return();
    assert.deepEqual(sessionPosition("tab", store).load(), { request, position: at(1) });
    const saved = storage.load();
    const { items } = await readAll(client.resumeChat(saved.request, saved.position));
    assert.deepEqual(items, ["w2 "]);
    assert.deepEqual(paper.cursors, [null, `${A}:1`]);
    assert.deepEqual([paper.requests[0].body, storage.load()], [paper.requests[1].body, null]);
    assert.equal(store.items.size, 0);
  });

  test("that a browser forbids or that is full does not end an answer", async () => {
    const full = () => { throw new Error("QuotaExceededError"); };
    const storage = sessionPosition("tab", { getItem: full, setItem: full, removeItem: full });
    const { items, error } = await readAll(
      play([{ chunks: ["w1", "close2"] }], { storage }).client.assist(REQUEST));
    assert.deepEqual([items.length, error, storage.load()], [2, null, null]);
  });

  test("a request without any packet is kept too", async () => {
    const storage = sessionPosition("tab", memoryStore());
    const { client } = play([{ refused: "reset" }], { storage, maxRetries: 0 });
    const { error } = await readAll(client.assist(REQUEST));
    assert.equal(error.name, "CAPConnectionError");
    assert.deepEqual(storage.load(), { request: REQUEST, position: null });
  });

  test("a fatal error ends it", async () => {
    const storage = sessionPosition("tab", memoryStore());
    const { client } = play([{ chunks: ["w1", "FATAL2"] }], { storage });
    assert.equal((await readAll(client.assist(REQUEST))).error.streamError.code, "busy");
    assert.equal(storage.load(), null);
  });
});

describe("leaving", () => {
  // proves: JS-leave
  test("a loop that breaks leaves the stream, and resume continues it", async () => {
    const { client } = play([{ chunks: ["w1", "w2", "close3"] }, { chunks: ["w2", "close3"] }]);
    const stream = client.assist(REQUEST);
    for await (const { seq } of stream) if (seq === 1) break;
    assert.deepEqual([stream.status, stream.position], ["left", at(1)]);
    await assert.rejects(stream.next(), /ended early \(left\); resume\(\) continues it/);
    const { items } = await readAll(client.resume(stream.request, stream.position));
    assert.deepEqual(items.map(({ seq }) => seq), [2, 3]);
  });

  for (const when of ["before the start", "while waiting", "while reading", "between packets"]) {
    test(`a signal leaves the stream ${when}`, async () => {
      const controller = new AbortController();
      const silent = new ReadableStream({
        start: (stream) => stream.enqueue(bytes(sse(packet(1, "DELTA", "x")))),
      });
      let aborted = false;
      const fetch = async (url, { signal }) => {
        if (when === "while waiting") throw new TypeError("fetch failed");
        signal.addEventListener("abort", () => { aborted = true; });
        return new Response(silent, { headers: { "content-type": "text/event-stream" } });
      };
      const client = new CAPClient("https://agent.example", { fetch });
      const stream = client.assist(REQUEST, { signal: controller.signal });
      if (when === "before the start") controller.abort("gone");
      const read = readAll(stream.next ? { [Symbol.asyncIterator]: () => ({
        async next() {
          const result = await stream.next();
          if (when === "between packets") controller.abort("gone");
          return result;
        },
      }) } : stream);
      if (when.startsWith("while")) setTimeout(() => controller.abort("gone"), 30);
      const { error } = await read;
      assert.equal(error, "gone");
      assert.equal(stream.status, "left");
      assert.equal(aborted, ["while reading", "between packets"].includes(when));
    });
  }

  // proves: JS-abort
  test("nothing is handed out after the signal, though it has arrived", async () => {
    const controller = new AbortController();
    const { client } = play([{ chunks: [["w1", "w2", "close3"]] }]);
    const stream = client.assist(REQUEST, { signal: controller.signal });
    await stream.next();
    controller.abort("gone");
    await assert.rejects(stream.next(), (reason) => reason === "gone");
    assert.deepEqual(stream.position, at(1));
  });

  test("a stream that has failed says so when it is read again", async () => {
    const stream = play([{ status: 500 }]).client.assist(REQUEST);
    await readAll(stream);
    await assert.rejects(stream.next(), { name: "CAPConnectionError", message: /ended early \(failed\)/ });
  });

  test("return() ends a next() that waits for the server, and its connection", BOUNDED, async () => {
    let closed;
    const client = new CAPClient("https://agent.example", {
      async fetch(url, { signal }) {
        closed = new Promise((resolve) => signal.addEventListener("abort", resolve));
        const silent = new ReadableStream({ start: (to) => to.enqueue(bytes(sse(packet(1, "DELTA", "x")))) });
        return new Response(silent, { headers: { "content-type": "text/event-stream" } });
      },
    });
    const stream = client.assist(REQUEST);
    await stream.next();
    const waiting = assert.rejects(stream.next(), { name: "CAPConnectionError", message: /ended early \(left\)/ });
    assert.deepEqual(await stream.return(), { done: true, value: undefined });
    await Promise.all([waiting, closed]);
    assert.equal(stream.status, "left");
  });

  test("return() ends a wait between two connections", BOUNDED, async () => {
    const { client } = play([{ chunks: ["w1"] }], { sleep: undefined, backoff: { first: 1e6, longest: 1e6 } });
    const stream = client.assist(REQUEST);
    await stream.next();
    const waiting = assert.rejects(stream.next(), /ended early \(left\)/);
    await new Promise((resolve) => setImmediate(resolve));
    await stream.return();
    await waiting;
  });

  test("a loop that breaks at the end has read all", async () => {
    const storage = sessionPosition("tab", memoryStore());
    const stream = play([{ chunks: ["w1", "close2"] }], { storage }).client.assist(REQUEST);
    for await (const { op } of stream) if (op === "CLOSE") break;
    assert.deepEqual([stream.status, storage.load()], ["done", null]);
  });

  test("a stream that is complete stays so", async () => {
    const stream = play([{ chunks: ["close1"] }]).client.assist(REQUEST);
    await readAll(stream);
    assert.deepEqual(await stream.next(), { done: true, value: undefined });
    await stream.return();
    assert.equal(stream.status, "done");
  });
});

describe("keys", () => {
  // proves: JS-keys
  test("are asked for at every request", async () => {
    const keys = ["first-key", "second-key"];
    const { client, paper } = play([{ chunks: ["w1"] }, { chunks: ["close2"] }],
      { getKey: async () => keys.shift() });
    await readAll(client.assist(REQUEST));
    assert.deepEqual(paper.requests.map(({ headers }) => headers.get("authorization")),
      ["Bearer first-key", "Bearer second-key"]);
  });

  test("may be left out", async () => {
    const { client, paper } = play([{ chunks: ["close1"] }], { key: undefined });
    await readAll(client.assist(REQUEST));
    assert.equal(paper.requests[0].headers.has("authorization"), false);
  });

  test("an error of getKey is the caller's own", async () => {
    const refused = new Error("signed out");
    const { client, paper } = play([], { getKey: () => Promise.reject(refused) });
    assert.equal((await readAll(client.assist(REQUEST))).error, refused);
    assert.equal(paper.requests.length, 0);
  });

  test("a getKey that fails for a while after a cut costs retries and not the answer", async () => {
    const answers = ["key-1", new TypeError("Failed to fetch"), "key-3"];
    const getKey = async () => {
      const next = answers.shift();
      if (typeof next !== "string") throw next;
      return next;
    };
    const { client, paper } = play([{ chunks: ["w1"] }, { chunks: ["w2", "close3"] }], { getKey });
    const { items, error } = await readAll(client.assist(REQUEST));
    assert.deepEqual([items.length, error, paper.requests.length], [3, null, 2]);
  });

  test("a getKey that fails for good is the cause of the error", async () => {
    const answers = ["key-1"];
    const failed = new TypeError("Failed to fetch");
    const getKey = async () => answers.shift() ?? Promise.reject(failed);
    const { client } = play([{ chunks: ["w1"] }], { getKey });
    const { error } = await readAll(client.assist(REQUEST));
    assert.deepEqual([error.name, error.cause, error.position.seq], ["CAPConnectionError", failed, 1]);
  });

  test("a getKey that never answers counts as silence, and a signal ends it", BOUNDED, async () => {
    const getKey = () => new Promise(() => {});
    const { client } = play([], { getKey, timeout: 1, maxRetries: 1 });
    const { error } = await readAll(client.assist(REQUEST));
    assert.match(error.message, /nothing more arrived in time/);
    const leaving = new AbortController();
    const waiting = client.assist(REQUEST, { signal: leaving.signal, timeout: 60_000 }).next();
    leaving.abort();
    await assert.rejects(waiting, { name: "AbortError" });
  });

  test("that no header can carry are refused, without being shown", async () => {
    const { error } = await readAll(play([], { key: "se cret\n" }).client.assist(REQUEST));
    assert.ok(error instanceof TypeError);
    assert.ok(!error.message.includes("cret\n"));
  });

  // proves: JS-redaction
  test("are not repeated in errors, nor are secret headers", async () => {
    const forms = [KEY, encodeURIComponent(KEY), btoa(KEY), "hidden-value", "call-secret"];
    const { client } = play([{ status: 401, body: JSON.stringify({ detail: forms.join(" ") }) }],
      { headers: { "X-Token": "hidden-value" } });
    const { error } = await readAll(client.assist(REQUEST, { headers: { "X-Other": "call-secret" } }));
    assert.match(error.message, /\*\*\*/);
    for (const form of forms) assert.ok(!error.message.includes(form), error.message);
  });
});

describe("requests", () => {
  test("headers of a call are added, those of the protocol stay", async () => {
    const { client, paper } = play([{ chunks: ["close1"] }]);
    const headers = { accept: "text/html", "x-one": "naïve", authorization: "Basic x" };
    await readAll(client.assist(REQUEST, { headers }));
    const sent = paper.requests[0].headers;
    assert.equal(sent.get("accept"), "text/event-stream");
    assert.equal(sent.get("authorization"), `Bearer ${KEY}`);
    assert.equal(Buffer.from(sent.get("x-one"), "latin1").toString(), "naïve");
    assert.equal(sent.get("x-team"), "blue");
  });

  test("a request without an id gets one, which it keeps", async () => {
    const { client, paper } = play([{ chunks: ["w1"] }, { chunks: ["close2"] }]);
    const { request_id: _, ...request } = REQUEST;
    const stream = client.assist(request);
    await readAll(stream);
    assert.deepEqual(new Set(paper.requests.map(({ body: sent }) => JSON.parse(sent).request_id)),
      new Set([stream.request.request_id]));
  });

  test("the address may have a final slash or /assist, and no secrets", () => {
    for (const url of ["https://a.example/x", "https://a.example/x/", "https://a.example/x/assist/"]) {
      assert.equal(new CAPClient(url).url, "https://a.example/x");
    }
    for (const url of ["ftp://a.example", "https://u:p@a.example", "https://a.example?k=1", "x", "."]) {
      assert.throws(() => new CAPClient(url), { name: "TypeError", message: /^url must be an http or https address/ }, url);
    }
  });

  test("numbers are checked", () => {
    for (const options of [{ timeout: -1 }, { maxRetries: NaN }, { deadline: null }, { timeout: "5" }]) {
      assert.throws(() => new CAPClient("https://a.example", options).assist(REQUEST), RangeError);
    }
    assert.throws(() => new CAPClient("https://a.example").resume(REQUEST, { seq: 1 }), TypeError);
  });

  test("undefined means the default", async () => {
    const { client } = play([{ chunks: ["close1"] }], { deadline: undefined, onTrace: undefined });
    assert.equal((await readAll(client.assist(REQUEST, { signal: undefined }))).error, null);
  });

  test("a failed certificate check is final", async () => {
    const cause = Object.assign(new Error("certificate has expired"), { code: "CERT_HAS_EXPIRED" });
    const fetch = () => Promise.reject(new TypeError("fetch failed", { cause }));
    const { error } = await readAll(new CAPClient("https://a.example", { fetch }).assist(REQUEST));
    assert.deepEqual([error.name, error.attempts], ["CAPConnectionError", 0]);
    assert.match(error.message, /certificate has expired/);
  });

  // proves: JS-silence
  test("a silent server is lost after the timeout, with head and without", async () => {
    for (const answers of [true, false]) {
      const fetch = () => (answers
        ? Promise.resolve(new Response(new ReadableStream(), { headers: { "content-type": "text/event-stream" } }))
        : new Promise(() => {}));
      const client = new CAPClient("https://a.example", { fetch, timeout: 20, maxRetries: 0 });
      const { error } = await readAll(client.assist(REQUEST));
      assert.match(error.message, /the last one: nothing more arrived in time/);
      assert.equal(error.name, "CAPConnectionError");
    }
  });
});

describe("redirects in a browser, which hides their target", () => {
  /** A fetch as in a browser: `redirect: "manual"` gives an opaque response. */
  function browser(target, requests) {
    return async (url, init) => {
      requests.push({ url, method: init.method ?? "GET", headers: new Headers(init.headers), ...init });
      if (url !== "https://agent.example/assist") {
        return new Response(body([bytes(sse(packet(1, "CLOSE", {})))]),
          { headers: { "content-type": "text/event-stream" } });
      }
      if (init.redirect === "manual") {
        return { type: "opaqueredirect", status: 0, headers: new Headers(), body: null };
      }
      if (target === null) throw new TypeError("Failed to fetch");
      return { redirected: true, url: target, body: null };
    };
  }

  for (const [target, trusted] of [["https://agent.example/v2", true], ["https://other.example/", false]]) {
    test(`${target} gets ${trusted ? "the" : "no"} credentials`, async () => {
      const requests = [];
      const client = new CAPClient("https://agent.example",
        { key: KEY, headers: { "X-Team": "blue" }, fetch: browser(target, requests) });
      const { items, error } = await readAll(client.assist(REQUEST));
      assert.deepEqual([items.length, error], [1, null]);
      const [, probe, last] = requests;
      assert.deepEqual([probe.method, probe.credentials, [...probe.headers]], ["GET", "omit", []]);
      assert.deepEqual([last.url, last.method, last.body], [target, "POST", JSON.stringify(REQUEST)]);
      assert.equal(last.headers.has("authorization"), trusted);
      assert.equal(last.headers.has("x-team"), trusted);
      assert.equal(last.credentials, trusted ? "same-origin" : "omit");
    });
  }

  test("one whose target cannot be found is an error", async () => {
    const client = new CAPClient("https://agent.example", { fetch: browser(null, []) });
    const { error } = await readAll(client.assist(REQUEST));
    assert.deepEqual([error.name, error.statusCode], ["CAPRuntimeError", 307]);
  });
});

describe("in a page", () => {
  const names = ["document", "addEventListener", "removeEventListener", "dispatchEvent"];
  afterEach(() => {
    for (const name of names) delete globalThis[name];
  });

  function openPage() {
    const page = new EventTarget();
    globalThis.document = Object.assign(new EventTarget(),
      { baseURI: "https://site.example/app/", visibilityState: "visible" });
    globalThis.addEventListener = page.addEventListener.bind(page);
    return page;
  }

  test("the address may be relative to it", () => {
    openPage();
    assert.equal(new CAPClient("./agent").url, "https://site.example/app/agent");
    assert.equal(new CAPClient("").url, "https://site.example/app");
  });

  /** Returns after how many milliseconds the second attempt was made. */
  async function secondAttempt(headers, wake) {
    const page = openPage();
    const times = [];
    const fetch = async () => {
      times.push(performance.now());
      if (times.length === 2) {
        return new Response(body([bytes(sse(packet(1, "CLOSE", {})))]),
          { headers: { "content-type": "text/event-stream" } });
      }
      throw new TypeError("fetch failed");
    };
    const backoff = { first: 30_000 };
    const client = new CAPClient("https://a.example", { fetch, backoff });
    const done = readAll(client.assist(REQUEST));
    setTimeout(() => wake(page), 20);
    assert.equal((await done).error, null);
    return times[1] - times[0];
  }

  // proves: JS-online
  test("the next attempt is made at once when it is online or visible again", async () => {
    const online = await secondAttempt({}, (page) => page.dispatchEvent(new Event("online")));
    const visible = await secondAttempt({}, () => {
      document.visibilityState = "hidden";
      document.dispatchEvent(new Event("visibilitychange")); // does nothing
      setTimeout(() => {
        document.visibilityState = "visible";
        document.dispatchEvent(new Event("visibilitychange"));
      }, 20);
    });
    assert.ok(online < 5000 && visible > 30 && visible < 5000, `${online} ${visible}`);
  });

  test("but not before the time that the server asked for", async () => {
    const page = openPage();
    const times = [];
    const fetch = async () => {
      times.push(performance.now());
      const text = times.length === 1
        ? `${sse(packet(1, "DELTA", "x"))}retry: 200\n\n`
        : sse(packet(2, "CLOSE", {}));
      return new Response(body([bytes(text)]), { headers: { "content-type": "text/event-stream" } });
    };
    const client = new CAPClient("https://a.example", { fetch, backoff: { first: 30_000 } });
    setTimeout(() => page.dispatchEvent(new Event("online")), 50);
    assert.equal((await readAll(client.assist(REQUEST))).error, null);
    const waited = times[1] - times[0];
    assert.ok(waited > 190 && waited < 5000, `${waited}`);
  });
});
