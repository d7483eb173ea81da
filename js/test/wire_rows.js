// A wire case and a plan of disconnects, played by this client in Node.js or in a browser.
// Each returns what was seen and what was expected, for the comparison of the runner.

import { bytes, KEY, packet, Paper, paperClient, readAll, REQUEST, sse, toHex, withIds }
  from "./support.js";

// Cases: tests/cap/cases/README.md describes them.

const MILLISECONDS = ["reconnect_for", "deadline"];
const NAMES = {
  max_retries: "maxRetries", reconnect_for: "reconnectFor", deadline: "deadline",
  strict_sequence: "strictSequence", max_event_bytes: "maxEventBytes", rewinds: "rewinds",
};

/** Returns the options of the Python machine as those of this client. */
function clientOptions({ position, jitter = 0, ...given }) {
  const options = { maxRetries: 3, reconnectFor: 0, random: () => jitter };
  for (const [name, value] of Object.entries(given)) {
    options[NAMES[name]] = MILLISECONDS.includes(name) ? value * 1000 : value;
  }
  return options;
}

export async function playCase({ options = {}, connections, expect }) {
  const { bare = [], message = [], ...stated } = withIds(expect);
  const script = [...connections];
  const paper = new Paper(() => script.shift());
  const client = paperClient(paper, clientOptions(options));
  const start = options.position ? withIds(options.position) : null;
  const stream = client.resume(REQUEST, start);
  const { items, error } = await readAll(stream);
  const seen = {
    ...observe(items, error, stream, paper),
    connectionsLeft: script.length,
    wrongRequests: paper.requests.filter((request, number) => !isRight(request, bare[number])),
    wordsMissing: message.filter((words) => !error?.message.includes(words)),
    headersMissing: missingHeaders(error, connections),
  };
  const expected = {
    text: "", error: null, fields: {}, cause: false, ...stated,
    connectionsLeft: 0, wrongRequests: [], wordsMissing: [], headersMissing: [],
  };
  if (error) expected.errorPosition = stated.position;
  return both(seen, expected);
}

/** Returns the parts that can be compared: a case need not state everything, nor for everyone. */
function both(seen, expected) {
  const names = Object.keys(expected).filter((name) => Object.hasOwn(seen, name));
  const pick = (values) => Object.fromEntries(names.map((name) => [name, values[name]]));
  return { seen: pick(seen), expected: pick(expected) };
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
    errorPosition: error && positionOf(error.position),
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
const isRight = ({ method, headers, body }, isBare = false) =>
  method === "POST" &&
  body === JSON.stringify(REQUEST) &&
  headers.get("x-request-id") === REQUEST.request_id &&
  headers.get("authorization") === (isBare ? null : `Bearer ${KEY}`) &&
  headers.has("x-team") === !isBare;

/** An error with a status has the headers of the response. */
function missingHeaders(error, connections) {
  if ((error?.statusCode ?? null) === null) return [];
  return Object.entries(connections.at(-1).headers ?? {})
    .filter(([name, value]) => error.headers.get(name) !== value);
}

// Plans: random disconnects that the Python client plays too, tests/cap/disconnects.py.

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
  if (!step) return { chunks: [hexOf(body(log.slice(seen), true))] };
  if (step.loss === "refused") return { refused: "reset" };
  if (step.loss === "503" && number > 0) return { status: 503 }; // at first it would be final
  const first = step.repeats === null ? 0 : Math.max(seen - step.repeats, 0);
  const sent = body(log.slice(first), step.ids).subarray(0, step.lost_after);
  const chunks = pieces(sent, step.chunks).map(hexOf);
  return step.loss === "reset" ? { chunks, end: "reset" } : { chunks };
}

const hexOf = (data) => ({ hex: toHex(data) });

export async function playPlan(plan) {
  const paper = new Paper(() => connect(plan, paper.requests.length - 1, paper.cursors.at(-1)));
  const client = paperClient(paper, { maxRetries: 1000 });
  const { items, error } = await readAll(client.assist(REQUEST));
  const isBounded = paper.requests.length <= plan.connections.length + 1;
  return {
    seen: { error: error && error.stack, items, isBounded },
    expected: { error: null, items: packets(plan.words), isBounded: true },
  };
}
