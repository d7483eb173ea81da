// What the tests share, also those that run in a browser: packets, and a network on paper.

import { CAPClient } from "../coreason.js";

export const STREAMS = {
  A: "0a0a0a0a-0000-4000-8000-00000000000a",
  B: "0b0b0b0b-0000-4000-8000-00000000000b",
};
export const REQUEST = {
  request_id: "0c0c0c0c-0000-4000-8000-00000000000c",
  context: { session_id: "s", user_id: "u" },
  payload: { messages: [{ role: "user", parts: [{ type: "text", content: "Count." }] }] },
};
export const KEY = "sk_very_secret";

/** Returns a value of a case with the ids of the streams in place of their names. */
export function withIds(value) {
  const text = JSON.stringify(value);
  return JSON.parse(text.replaceAll("{A}", STREAMS.A).replaceAll("{B}", STREAMS.B));
}

// Bytes

export const bytes = (text) => new TextEncoder().encode(text);

export const toHex = (data) =>
  Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");

const fromHex = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

export function join(parts) {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

export function packet(seq, op, p, stream_id = STREAMS.A) {
  const t = new Date(Date.UTC(2025, 0, 1) + seq).toISOString().replace("Z", "+00:00");
  return { stream_id, seq, op, t, p };
}

/** `withId` may be an id of another form. */
export function sse(sent, withId = true) {
  const own = withId === true ? `${sent.stream_id}:${sent.seq}` : withId;
  const id = withId ? `id: ${own}\n` : "";
  return `${id}data: ${JSON.stringify(sent)}\n\n`;
}

function shortBytes(short) {
  const [, stream = "A", kind, number, epoch] = /^(?:(B):)?([a-zA-Z]+?)(\d+)((?::\d+)*)$/.exec(short);
  const seq = Number(number);
  const error = { code: "busy", message: "too much", severity: kind };
  const [op, p] = { w: ["DELTA", `w${seq} `], close: ["CLOSE", { reason: "done" }] }[kind] ??
    ["ERROR", error];
  return bytes(sse(packet(seq, op, p, STREAMS[stream]), `${STREAMS[stream]}:${seq}${epoch}`));
}

function partBytes(part) {
  if (typeof part === "string") return shortBytes(part);
  if (part.hex !== undefined) return fromHex(part.hex);
  if (part.text !== undefined) return bytes(withIds(part.text));
  const { seq, op, p, stream = "A", id = true } = part;
  return bytes(sse(packet(seq, op, p, STREAMS[stream]), withIds(id)));
}

export const chunkBytes = (chunk) => join([chunk].flat().map(partBytes));

// The network

/** Returns a stream of these chunks that ends cleanly or with a failure. */
export function body(chunks, failure = null) {
  const left = [...chunks];
  return new ReadableStream({
    pull(controller) {
      if (left.length) controller.enqueue(left.shift());
      else if (failure) controller.error(failure);
      else controller.close();
    },
  }, { highWaterMark: 0 }); // one that reads ahead would drop what it has read when it fails
}

export const networkFailure = () => new TypeError("fetch failed", { cause: new Error("reset") });

/** Plays connections instead of fetch, and records what was asked of it; nothing waits. */
export class Paper {
  requests = [];
  waits = [];
  #lasted = 0;
  #next;

  /** `next(request)` returns a connection of the form of tests/cap/cases. */
  constructor(next) {
    this.#next = next;
  }

  /** The options that put a client onto this network. */
  get options() {
    return {
      fetch: (url, init) => this.#fetch(url, init),
      sleep: async (wait) => void this.waits.push(wait / 1000),
      clock: () => this.#lasted + this.waits.reduce((sum, wait) => sum + wait * 1000, 0),
      now: () => 0,
      random: () => 0,
    };
  }

  async #fetch(url, { method, headers, body: sent }) {
    this.requests.push({ method, url, headers, body: sent });
    const connection = this.#next(this.requests.at(-1));
    this.#lasted += (connection.seconds ?? 0) * 1000;
    if (connection.refused) throw networkFailure();
    const { status = 200, chunks = [] } = connection;
    const headersSent = connection.headers ??
      (status === 200 ? { "content-type": "text/event-stream" } : {});
    const isStream = status === 200 && connection.body === undefined;
    const streamed = isStream
      ? body(chunks.map(chunkBytes), connection.end ? networkFailure() : null)
      : connection.body || null;
    return new Response(status === 204 ? null : streamed, { status, headers: headersSent });
  }

  /** The Last-Event-ID of each request. */
  get cursors() {
    return this.requests.map(({ headers }) => {
      const sent = headers.get("last-event-id");
      return sent && new TextDecoder().decode(Uint8Array.from(sent, (char) => char.charCodeAt(0)));
    });
  }
}

export function paperClient(paper, options = {}) {
  const headers = { "X-Team": "blue" };
  return new CAPClient("https://agent.example", { key: KEY, headers, ...paper.options, ...options });
}

/** Reads a stream to its end or to its error. */
export async function readAll(stream) {
  const items = [];
  try {
    for await (const item of stream) items.push(item);
  } catch (error) {
    return { items, error };
  }
  return { items, error: null };
}
