// The modules of the page that need no browser. Run by test_units.py, with their folder in STATIC.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(`${process.env.STATIC}/${name}`).href);
const { parse, setLevels, size } = await load("markdown.js");
const { Blocks } = await load("blocks.js");
const { clean, readableJson, safeLink } = await load("clean.js");
const { Trace, describe, ticks } = await load("trace.js");
const { Session } = await load("session.js");
const { asCurl, asExport, asPython } = await load("snippets.js");

const cases = JSON.parse(readFileSync(process.env.CASES, "utf8"));
const hostile = JSON.parse(readFileSync(process.env.HOSTILE, "utf8"));

function shown(node) {
  if (typeof node === "string") return JSON.stringify(node);
  const more = ["href", "start", "align", "language", "checked", "alt"].filter((name) => node[name] !== undefined && node[name] !== null);
  const fields = more.map((name) => `${name}=${node[name]}`).join(" ");
  return `${node.tag}${fields && `<${fields}>`}(${node.children.map(shown).join(" ")})`;
}

const tree = (text) => parse(text).map(shown).join(" ");

for (const [name, text, expected] of cases) {
  test(`markdown: ${name}`, () => assert.equal(tree(text), expected));
}

test("text that streams in ends as the same tree, whatever its pieces are", () => {
  const text = cases.map(([, each]) => each).join("\n\n");
  for (const size of [1, 7, 1000]) {
    const blocks = new Blocks();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...blocks.feed(text.slice(at, at + size)));
    found.push(blocks.finish());
    assert.equal(found.map(tree).filter(Boolean).join(" "), tree(text), `pieces of ${size}`);
  }
});

function depth(nodes) {
  return nodes.reduce((most, node) => Math.max(most, typeof node === "string" ? 0 : 1 + depth(node.children)), 0);
}

function* links(nodes) {
  for (const node of nodes) {
    if (typeof node === "string") continue;
    if (node.href) yield node.href;
    yield* links(node.children);
  }
}

for (const { name, text, repeat = 1 } of hostile.texts) {
  test(`hostile: ${name}`, () => {
    const whole = text.repeat(repeat);
    const begun = performance.now();
    const nodes = parse(whole);
    const took = performance.now() - begun;
    assert.ok(took < 4000, `${took} ms`);
    assert.ok(depth(nodes) < 60, "nesting has a limit");
    assert.ok(size(nodes) < 4000, "so has the number of elements");
    for (const href of links(nodes)) assert.match(href, /^(https?|mailto):/);
  });
}

test("only http, https and mailto become links", () => {
  for (const bad of ["javascript:alert(1)", "JaVaScript:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//evil.example", "/relative", "http:", "https://a b", "\u202ehttps://a.example", "https://a.example/\u202e", 7, null]) {
    assert.equal(safeLink(bad), null, String(bad));
  }
  assert.equal(safeLink("https://a.example/x?y#z"), "https://a.example/x?y#z");
  assert.equal(safeLink("mailto:me@a.example"), "mailto:me@a.example");
});

test("control characters are removed from text and escaped in JSON", () => {
  assert.equal(clean("a\u0000b\u001b[31mc\u202ed\r\ne\u2066f\tg\u0085h"), "ab[31mcd\nef\tgh");
  assert.equal(readableJson({ a: "\u202e\u0085x" }), '{\n  "a": "\\u202e\\u0085x"\n}');
});

const packet = (seq, op = "DELTA") => ({ stream_id: "s", seq, op, t: "2026-01-05T10:00:00Z", p: "x" });

function recorded() {
  const trace = new Trace();
  const events = [
    { type: "connect", at: 1000, connection: 1 },
    { type: "open", at: 1010, connection: 1, status: 200 },
    { type: "packet", at: 1020, connection: 1, packet: packet(1), bytes: 100, id: "s:1" },
    { type: "packet", at: 1120, connection: 1, packet: packet(2), bytes: 50, id: "s:2" },
    { type: "gap", at: 1121, connection: 1, expected: 3, received: 5 },
    { type: "cut", at: 1130, connection: 1, reason: "lost" },
    { type: "wait", at: 1130, connection: 1, seconds: 0.5, attempt: 1 },
    { type: "connect", at: 1630, connection: 2 },
    { type: "open", at: 1640, connection: 2, status: 200 },
    { type: "duplicate", at: 1650, connection: 2, packet: packet(2), bytes: 50, id: "s:2" },
    { type: "rewind", at: 1660, connection: 2, from: 2, to: 1 },
    { type: "packet", at: 2020, connection: 2, packet: packet(3, "CLOSE"), bytes: 40, id: "s:3" },
    { type: "end", at: 2021, connection: 2, outcome: "close" },
    { type: "something new", at: 2022, connection: 2 },
  ];
  for (const event of events) trace.add(event);
  return trace;
}

test("a trace has the figures, the bands and the marks of what happened", () => {
  const trace = recorded();
  assert.deepEqual(trace.figures, {
    packets: 3, bytes: 190, firstPacket: 20, attempts: 2, connections: 2, reconnects: 1, cuts: 1, duplicates: 1,
    gaps: 1, rewinds: 1, lastSeq: 3,
  });
  assert.equal(trace.rate, 2);
  assert.deepEqual(trace.bands, [
    { connection: 1, from: 0, opened: 10, to: 130, outcome: "cut", status: 200 },
    { connection: 2, from: 630, opened: 640, to: 1021, outcome: "close", status: 200 },
  ]);
  assert.deepEqual(trace.marks.map(describe), [
    "Packet 1, DELTA, 100 bytes, at 20 ms, connection 1",
    "Packet 2, DELTA, 50 bytes, at 120 ms, connection 1",
    "Gap: expected 3, received 5, at 121 ms, connection 1",
    "Connection lost: lost, at 130 ms, connection 1",
    "Dropped duplicate of packet 2, at 650 ms, connection 2",
    "Rewind: back to packet 1, at 660 ms, connection 2",
    "Packet 3, CLOSE, 40 bytes, at 1.02 s, connection 2",
  ]);
});

test("a trace tells what happened in a few lines, and failed attempts are no reconnects", () => {
  assert.deepEqual(recorded().story.map(({ text }) => text), [
    "Asked the agent", "The first packet arrived", "The text begins", "2 packets missing after packet 2", "Connection lost after packet 2",
    "Connected again", "Dropped 1 duplicate", "The agent writes again what followed packet 1", "Complete: 3 packets",
  ]);
  const trace = new Trace();
  const events = [
    ["connect", 1], ["open", 1, { status: 200 }], ["cut", 1, { reason: "lost" }],
    ["connect", 2], ["cut", 2, { reason: "refused" }],
    ["connect", 3], ["open", 3, { status: 503 }], ["cut", 3, { reason: "unavailable" }],
    ["connect", 4], ["open", 4, { status: 200 }], ["end", 4, { outcome: "close" }],
  ];
  events.forEach(([type, connection, more], at) => trace.add({ type, at, connection, ...more }));
  assert.deepEqual([trace.figures.attempts, trace.figures.connections, trace.figures.reconnects, trace.figures.cuts], [4, 2, 1, 1]);
  assert.deepEqual(trace.story.slice(1).map(({ text }) => text), [
    "Connection lost before the first packet", "The server answered with status 503",
    "Connected again, after 2 failed attempts", "Complete: 0 packets, none lost",
  ]);
  assert.equal(describe(trace.marks[1]), "Failed attempt: refused, at 4 ms, connection 2");
});

test("what is longer than a block may be is divided: lines, code, and letters that no space divides", () => {
  const fed = (text, size) => {
    const blocks = new Blocks();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...blocks.feed(text.slice(at, at + size)));
    return [...found, blocks.finish()].filter(Boolean);
  };
  for (const text of ["x".repeat(100_000), "word ".repeat(20_000), "line\n".repeat(20_000), "e\u0301".repeat(50_000)]) {
    for (const size of [1_000, 100_000]) {
      const found = fed(text, size);
      assert.ok(found.every((block) => block.length <= 8_100), `${Math.max(...found.map(({ length }) => length))}`);
      assert.equal(found.join("").replaceAll("\n", ""), text.replaceAll("\n", ""));
      assert.ok(found.every((block) => !block.startsWith("\u0301")));
    }
  }
  const code = fed(`~~~js\n${"let x = 1;\n".repeat(6_000)}~~~\n\nafter`, 1_000);
  assert.ok(code.length > 3);
  assert.equal(code.at(-1), "after");
  const trees = code.slice(0, -1).map((block) => parse(block));
  assert.ok(trees.every(([node, ...more]) => node.tag === "pre" && node.language === "js" && !more.length));
  assert.equal(trees.map(([node]) => `${node.children[0].children[0]}\n`).join(""), "let x = 1;\n".repeat(6_000));
  for (const row of ["| a | b |\n", "- item\n", "  1. item\n", "> said\n"]) {
    const rows = `${row[0] === "|" ? "| a | b |\n|---|---|\n" : ""}${row.repeat(1_000)}`;
    assert.equal(fed(rows, 100).length, 1, `${row} stays one block`);
  }
  const [{ children }] = parse(`before ${"ก".repeat(5_000)} after`);
  assert.deepEqual(children.map((node) => node.tag ?? node), ["before ", "run", "run", "run", "run", "run", " after"]);
});

test("the headings of an answer have levels without a gap", () => {
  const nodes = parse("### a\n\n# b\n\n> ##### c\n\n## d\n\n###### e");
  const levels = (found) => found.flatMap((node) => (typeof node === "string" ? [] : [node.level ?? levels(node.children)].flat()));
  assert.equal(setLevels(nodes, 2), 5);
  assert.deepEqual(levels(nodes), [3, 3, 4, 4, 5]);
});

test("a trace keeps a limited number of marks", () => {
  const trace = new Trace();
  for (let seq = 0; seq < 60_001; seq += 1) {
    trace.add({ type: "packet", at: seq, connection: 1, packet: packet(seq), bytes: 1, id: "" });
  }
  assert.ok(trace.marks.length <= 50_000);
  assert.equal(trace.marks.length + trace.removed, 60_001);
  assert.equal(trace.figures.packets, 60_001);
});

test("the ticks of an axis are round", () => {
  assert.deepEqual(ticks(0, 1000, 5), [0, 200, 400, 600, 800, 1000]);
  assert.deepEqual(ticks(130, 700, 3), [200, 400, 600]);
});

class Store extends Map {
  getItem(name) { return this.get(name) ?? null; }
  setItem(name, value) { this.set(name, value); }
  removeItem(name) { this.delete(name); }
}

test("a session keeps a key only on request, and takes the token out of the address", () => {
  const store = new Store();
  const session = new Session(store, "/");
  session.setKey("secret", false);
  assert.ok(![...store.values()].join().includes("secret"));
  session.setKey("secret", true);
  assert.equal(new Session(store, "/").key, "secret");
  session.setKey("other", false);
  assert.equal(new Session(store, "/").key, null);
  const replaced = [];
  const history = { replaceState: (...call) => replaced.push(call) };
  const location = { hash: "#token=abc&stream=s1", pathname: "/x/", search: "" };
  assert.equal(session.takeFragment(location, history), "s1");
  assert.deepEqual(replaced, [[null, "", "/x/"]]);
  assert.equal(new Session(store, "/").token, "abc");
  assert.notEqual(new Session(store, "/other/").token, "abc");
});

test("a session survives a store that is broken or full", () => {
  const broken = { getItem: () => "{", setItem() { throw new Error("full"); }, removeItem() { throw new Error("full"); } };
  const session = new Session(broken, "/");
  session.setKey("k", true);
  session.save([{ question: "q", text: "x".repeat(90_000), streamId: null, lastSeq: null }]);
  assert.equal(session.turns[0].text.length, 50_000);
});

test("snippets, for test_units.py to run", () => {
  const question = "What's \"up\" $HOME `id` \\ \u2028 é?\nsecond";
  const request = { request_id: "r", payload: { messages: [{ role: "user", parts: [{ type: "text", content: question }] }] } };
  const options = [["-H", "Authorization: Bearer {key}"], ["-H", 'X-It\'s"$(id)`id`: {key}'], ["-u", "{key}"], ["--url-query", "k={key}"]];
  const made = ["cap", "a2a"].flatMap((protocol) => options.map((curlOption) => {
    const target = { protocol, url: "http://127.0.0.1:1/it's", question, request, needsKey: true, curlOption };
    return { curl: asCurl(target), python: asPython(target), question, request, curlOption };
  }));
  writeFileSync(process.env.SNIPPETS, JSON.stringify(made));
});

test("an export has the packets, the figures and what happened", () => {
  const request = { request_id: "r" };
  const turn = { question: "q", request, streamId: "s", status: "done", answer: { text: "t", packets: [packet(1)] }, trace: recorded() };
  const made = asExport({ agent_id: "a", version: "1", protocol: "cap", target: null }, [turn], new Date(0));
  assert.equal(made.exported_at, "1970-01-01T00:00:00.000Z");
  assert.deepEqual(made.turns[0].packets, [packet(1)]);
  assert.equal(made.turns[0].marks.at(-1).seq, 3);
});
