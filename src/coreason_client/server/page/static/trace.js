// What happened on the wire while one answer was read, and the figures of it. No DOM.

import { clean } from "./clean.js";

const MAX_MARKS = 50_000;
const MAX_STORY = 200;
const SPARE = 10_000; // how many are removed at once when there are too many

/** The events of `onTrace` as marks and bands on a time axis; times are in ms from the start. */
export class Trace {
  constructor() {
    this.marks = []; // {kind, at, connection, ...}: packets and what else has a moment
    this.bands = []; // {connection, from, to, outcome, status}
    this.removed = 0; // marks that are no longer kept
    this.started = null;
    this.ended = false;
    this.written = false; // whether there was text
    this.last = 0;
    this.largest = 0; // bytes of a packet with text
    this.story = []; // {at, kind, text}: what happened, for people to read
    this.failures = 0; // attempts since the last connection
    this.figures = {
      packets: 0, bytes: 0, firstPacket: null, attempts: 0, connections: 0, reconnects: 0, cuts: 0,
      duplicates: 0, gaps: 0, rewinds: 0, lastSeq: null,
    };
  }

  /** Record an event of the client. */
  add(event) {
    this.started ??= event.at;
    const at = event.at - this.started;
    this.last = Math.max(this.last, at);
    RECORDERS[event.type]?.(this, event, at);
    if (this.marks.length > MAX_MARKS) {
      this.marks.splice(0, SPARE);
      this.removed += SPARE;
    }
  }

  /** Packets per second over the whole answer, or null before the second packet. */
  get rate() {
    const { packets, firstPacket } = this.figures;
    const seconds = (this.lastPacket - firstPacket) / 1000;
    return packets > 1 && seconds > 0 ? (packets - 1) / seconds : null;
  }

  mark(kind, at, event, more) {
    this.marks.push({ kind, at, connection: event.connection, ...more });
  }

  /** Add a line to the story; one of the same kind can take the place of the last one. */
  tell(at, kind, text, instead = false) {
    if (instead && this.story.at(-1)?.kind === kind) this.story.pop();
    if (this.story.length < MAX_STORY || this.ended) this.story.push({ at, kind, text });
  }

  endBand(at, outcome) {
    const band = this.bands.at(-1);
    if (band && band.to === null) Object.assign(band, { to: at, outcome });
  }
}

const RECORDERS = {
  connect(trace, event, at) {
    trace.endBand(at, "cut");
    trace.figures.attempts += 1;
    if (trace.figures.attempts === 1) trace.tell(at, "start", "Asked the agent");
    trace.bands.push({ connection: event.connection, from: at, opened: null, to: null, outcome: null, status: null });
  },
  open(trace, event, at) {
    const { figures, failures } = trace;
    const band = trace.bands.at(-1);
    if (!STREAMS.includes(event.status)) return trace.tell(at, "refused", `The server answered with status ${event.status}`);
    if (band) Object.assign(band, { opened: at, status: event.status });
    figures.connections += 1;
    figures.reconnects = figures.connections - 1;
    trace.failures = 0;
    if (figures.reconnects) trace.tell(at, "again", `Connected again${failures ? `, after ${plural(failures, "failed attempt")}` : ""}`);
  },
  packet(trace, event, at) {
    const { figures } = trace;
    figures.packets += 1;
    figures.bytes += event.bytes;
    if (event.packet.op === "DELTA") trace.largest = Math.max(trace.largest, event.bytes);
    if (figures.firstPacket === null) {
      figures.firstPacket = at;
      trace.tell(at, "first", "The first packet arrived");
    }
    figures.lastSeq = event.packet.seq;
    const kind = event.packet.op === "EVENT" ? event.packet.p.type : event.packet.op;
    const told = Object.hasOwn(TELLING, kind) && TELLING[kind](trace, event.packet.p);
    if (told) trace.tell(at, "event", told);
    trace.lastPacket = at;
    trace.mark("packet", at, event, { packet: event.packet, bytes: event.bytes, id: event.id });
  },
  duplicate(trace, event, at) {
    trace.figures.duplicates += 1;
    trace.repeated = trace.story.at(-1)?.kind === "duplicate" ? trace.repeated + 1 : 1;
    trace.tell(at, "duplicate", `Dropped ${plural(trace.repeated, "duplicate")}`, true);
    trace.mark("duplicate", at, event, { packet: event.packet, bytes: event.bytes, id: event.id });
  },
  gap(trace, event, at) {
    trace.figures.gaps += 1;
    const missing = plural(event.received - event.expected, "packet");
    trace.tell(at, "gap", `${missing} missing after packet ${event.expected - 1}`);
    trace.mark("gap", at, event, { expected: event.expected, received: event.received });
  },
  rewind(trace, event, at) {
    trace.figures.rewinds += 1;
    trace.tell(at, "rewind", `The agent writes again what followed packet ${event.to}`);
    trace.mark("rewind", at, event, { from: event.from, to: event.to });
  },
  cut(trace, event, at) {
    const failed = trace.bands.at(-1)?.opened === null;
    if (failed) trace.failures += 1;
    else {
      trace.figures.cuts += 1;
      const { lastSeq } = trace.figures;
      trace.tell(at, "cut", `Connection lost ${lastSeq === null ? "before the first packet" : `after packet ${lastSeq}`}`);
    }
    trace.mark("cut", at, event, { reason: event.reason, failed });
    trace.endBand(at, "cut");
  },
  end(trace, event, at) {
    trace.endBand(at, event.outcome);
    trace.ended = true;
    const { packets, gaps } = trace.figures;
    const whole = gaps ? "" : ", none lost";
    const complete = event.outcome === "close";
    trace.tell(at, complete ? "end" : "failed", complete ? `Complete: ${plural(packets, "packet")}${whole}` : `Ended after ${plural(packets, "packet")}`);
  },
};

const name = (data) => (typeof data?.name === "string" ? clean(data.name).slice(0, 60) : "a tool");

const TELLING = {
  DELTA(trace) {
    const first = !trace.written;
    trace.written = true;
    return first && "The text begins";
  },
  ERROR: (_, { code = "" }) => `The agent reports ${clean(code).slice(0, 60)}`,
  TOOL_CALL: (_, { data }) => `The agent calls ${name(data)}`,
  CITATION_BLOCK: (_, { data }) => Array.isArray(data?.citations) && `The agent names ${plural(data.citations.length, "source")}`,
};

const STREAMS = [200, 204]; // a 204 says that nothing follows

/** Return a number with its noun. */
export const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

const NAMES = {
  duplicate: "dropped duplicate", gap: "gap", rewind: "rewind", cut: "connection lost",
};

/** Return one line about a mark, for the list of details and for screen readers. */
export function describe(mark) {
  const when = `${seconds(mark.at)}, connection ${mark.connection}`;
  if (mark.kind === "packet") {
    return `Packet ${mark.packet.seq}, ${mark.packet.op}, ${mark.bytes} bytes, at ${when}`;
  }
  const more = {
    duplicate: () => ` of packet ${mark.packet.seq}`,
    gap: () => `: expected ${mark.expected}, received ${mark.received}`,
    rewind: () => `: back to packet ${mark.to}`,
    cut: () => (mark.reason ? `: ${mark.reason}` : ""),
  }[mark.kind]();
  const name = mark.failed ? "failed attempt" : NAMES[mark.kind];
  return `${name[0].toUpperCase()}${name.slice(1)}${more}, at ${when}`;
}

/** Return a time in ms as seconds with a unit. */
export function seconds(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

/** Return steps of a time axis: about `count` round times within a range. */
export function ticks(from, to, count) {
  const span = Math.max(to - from, 1);
  const raw = span / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
