// A question and its answer: reads the stream, and records what happens on the wire.

import { Answer } from "./answer.js";
import { clean } from "./clean.js";
import { element, nextFrame, plain } from "./draw.js";
import { notice, Seam, streamError } from "./events.js";
import { plural, seconds, Trace } from "./trace.js";

const SLICE = 8; // ms of reading at once
const OPENING = { connect: "connecting", open: "open", wait: "waiting" };

/** `onChange` is called with the turn when its status or stream changes. */
export class Turn {
  constructor(question, onChange) {
    this.question = question;
    this.onChange = onChange;
    this.request = null;
    this.streamId = null;
    this.status = "new"; // connecting, open, waiting, done, failed, cancelled, left
    this.replayedTo = null; // the last packet that was shown before a reload
    this.before = { text: "" }; // that a reload kept
    this.error = null;
    this.seam = null; // where the connection was lost last
    this.reloaded = false; // whether that is shown
    this.answer = new Answer();
    this.trace = new Trace();
    this.leaving = new AbortController();
    this.build();
  }

  build() {
    this.meta = element("span", "meta-text", "");
    this.select = element("button", "quiet", "Show timeline");
    this.select.type = "button";
    const meta = element("p", "meta", this.meta, this.select);
    const asked = this.question === null ? element("h2", "hidden-label", "Answer") : element("h2", "question", ...plain(clean(this.question)));
    if (this.question !== null) asked.dataset.testid = "question";
    this.element = element("article", "turn", asked, this.answer.element, meta);
    this.element.dataset.testid = "turn";
    this.element.setAttribute("aria-label", this.question === null ? "Answer" : `Answer to: ${clean(this.question).slice(0, 80)}`);
    this.setStatus("new");
  }

  get running() {
    return ["connecting", "open", "waiting"].includes(this.status);
  }

  get lastSeq() {
    return this.trace.figures.lastSeq;
  }

  /** What a reload needs. */
  get kept() {
    const { text, asked } = this.answer.text ? this.answer : this.before;
    return { question: this.question, text, asked, streamId: this.streamId, lastSeq: this.lastSeq ?? this.replayedTo, said: this.answer.said, request: this.running && !this.streamId && this.request };
  }

  setStatus(status) {
    this.status = status;
    this.element.dataset.status = status;
  }

  change(status) {
    this.setStatus(status);
    this.onChange(this);
  }

  record(event) {
    this.trace.add(event);
    const streamId = event.streamId ?? event.packet?.stream_id ?? null;
    const known = streamId === null || streamId === this.streamId;
    if (!known) this.streamId = streamId;
    const status = OPENING[event.type];
    if (status && this.status !== status) this.change(status);
    else if (!known) this.onChange(this);
    const error = event.type === "cut" ? event.error : null;
    if (error?.severity) this.answer.addNotice(streamError(error));
    if (event.type === "cut") this.lose();
    if (event.type === "packet") this.resume();
  }

  // A cut and its resume are one line, and so are several cuts within one paragraph.
  lose() {
    if (this.seam?.element.dataset.state === "waiting") return; // an attempt to connect failed
    if (!this.seam || !this.answer.endsWith(this.seam)) {
      this.seam = new Seam("Connection lost");
      this.answer.addSeam(this.seam);
    }
    this.seam.happen(this.answer.words);
  }

  resume() {
    if (this.seam?.element.dataset.state !== "waiting") return;
    this.seam.say("resumed", this.trace.figures.gaps ? "resumed" : "resumed, nothing lost");
  }

  // Packets before a reload come again; the next one shows where it was.
  passReload(seq) {
    if (this.replayedTo === null || this.reloaded || seq <= this.replayedTo) return;
    this.reloaded = true;
    const seam = new Seam("Page reloaded");
    seam.happen(this.answer.words);
    seam.say("resumed", "continued, nothing lost");
    this.answer.addSeam(seam);
  }

  /** Read a stream to its end; `open` gets the options of the call and returns the stream. */
  read(open) {
    return (this.reading = this.readAll(open));
  }

  async readAll(open) {
    this.change("connecting");
    try {
      const onTrace = (event) => this.record(event);
      const stream = open({ signal: this.leaving.signal, onTrace, rewinds: true });
      await this.take(stream);
      await this.finish("done");
    } catch (error) {
      await this.fail(error);
    }
  }

  // Packets that are there already come without a pause, in which the browser could draw.
  async take(stream) {
    let end = performance.now() + SLICE;
    for await (const packet of stream) {
      this.passReload(packet.seq);
      this.answer.add(packet);
      if (performance.now() < end) continue;
      await nextFrame();
      end = performance.now() + SLICE;
    }
  }

  async finish(status) {
    if (status === "done") this.resume();
    else if (this.seam?.element.dataset.state === "waiting") this.seam.say("failed", "not resumed");
    await this.answer.end();
    this.change(status);
  }

  async fail(error) {
    if (this.leaving.signal.aborted) {
      this.answer.addNotice(notice("info", "Stopped before the answer began"));
      return this.finish("left");
    }
    this.error = error;
    this.answer.markUnread(error?.streamError?.details);
    if (error?.streamError?.code === "cancelled") {
      await this.finish("cancelled");
      this.answer.addNotice(notice("info", "Stopped", "The agent no longer works on it."));
      return;
    }
    await this.finish("failed");
    const made = error?.streamError ? streamError(error.streamError) : notice("fatal", titleOf(error), error?.message ?? String(error));
    this.answer.addNotice(made);
    this.failure = made;
  }

  /** Draw what has arrived; return false if there was nothing. */
  draw() {
    const drawn = this.answer.draw();
    if (this.lastSeq !== null) this.element.dataset.lastSeq = this.lastSeq;
    this.meta.textContent = this.summary();
    return drawn;
  }

  summary() {
    const { packets, reconnects, firstPacket, gaps } = this.trace.figures;
    const parts = [];
    if (packets) parts.push(plural(packets, "packet"), seconds(this.trace.last), `first after ${seconds(firstPacket)}`);
    if (reconnects) parts.push(`${plural(reconnects, "reconnect")}${this.status === "done" && !gaps ? ", nothing lost" : ""}`);
    return parts.join(" · ");
  }
}

const TITLES = {
  CAPConnectionError: "The connection was lost",
  CAPTimeoutError: "The answer took too long",
  CAPStreamReset: "The server has begun another answer",
  CAPProtocolError: "The server broke the protocol",
  CAPRuntimeError: "The server refused",
};

function titleOf(error) {
  if (error?.statusCode === 401) return "The server wants another key";
  if ([404, 410].includes(error?.statusCode)) return "The server no longer has this answer";
  return TITLES[error?.name] ?? "Something went wrong";
}
