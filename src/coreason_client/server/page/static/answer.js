// One answer on the page: takes packets, and draws what they say at the next frames, in slices that
// leave time for everything else. The parts keep the order of their packets, except that a part never
// splits a paragraph: it stays below the one that is being written. So text only grows at its end.

import { Blocks } from "./blocks.js";
import { clean } from "./clean.js";
import { element, nextFrame, patch } from "./draw.js";
import { addedUsage, approval, artifact, list, media, notice, otherEvent, Progress, said, Seam, Sources, streamError, Task, textOf, Thoughts, ToolCall, usage } from "./events.js";
import { broken, parse, setLevels, size } from "./markdown.js";

const MAX_TEXT = 300_000; // characters that are drawn
const MAX_PARTS = 1_000; // blocks and events that are drawn
const MAX_NODES = 10_000; // elements of all blocks
const SLICE = 8; // ms of drawing at once
const PIECE = 2_000; // characters that are drawn without a look at the clock

/** Return the last number that is still valid after a REWIND event, or null. */
export function rewoundTo(packet) {
  const to = packet.op === "EVENT" && packet.p?.type === "REWIND" ? packet.p.data?.to_seq : null;
  return Number.isInteger(to) && to >= 0 ? to : null;
}

export class Answer {
  constructor() {
    this.element = element("div", "answer");
    this.element.dataset.testid = "answer";
    this.said = []; // {id, text, after}: the user's messages, each with the number of the packet before it
    this.decide = () => {}; // approves or denies a call
    this.reset();
  }

  reset() {
    this.parts = element("div", "parts");
    this.foot = element("div", "foot");
    this.element.replaceChildren(this.parts, this.foot);
    this.queue = []; // packets that are not drawn
    this.drawn = 0; // how many of the queue are
    this.unfed = ""; // text of the last one that is not drawn
    this.packets = []; // valid ones
    this.placed = 0; // how many of the user's messages are in the queue
    this.bubbles = new Map(); // their elements by id
    this.waitingCall = null; // the id of the call for which the agent asks for a permission
    this.asked = undefined; // where in the text the question begins
    this.blocks = new Blocks();
    this.live = null; // the element of the block that is being written
    this.liveText = null;
    this.text = "";
    this.cropped = null; // the notice that there is more text
    this.count = 0;
    this.nodes = 0; // elements of complete blocks
    this.left = 0; // parts that are not drawn
    this.more = null; // the notice that says so
    this.thoughts = null;
    this.progress = new Map();
    this.tasks = new Map();
    this.tools = new Map();
    this.level = 2; // of the last heading of a complete block
    this.artifacts = new Set();
    this.sources = null;
    this.used = null; // the sum of all reports
    this.usage = null; // its line
  }

  /** Take a packet; `draw` shows it. */
  add(packet) {
    const to = rewoundTo(packet);
    if (to === null) {
      this.packets.push(packet);
      this.enqueue(packet);
      return;
    }
    const valid = this.packets.filter(({ seq }) => seq <= to);
    this.reset();
    this.packets = valid;
    for (const each of valid) this.enqueue(each);
    const seam = new Seam("The agent started again");
    seam.happen(this.words);
    seam.say("resumed", "what followed was written anew");
    this.addSeam(seam);
  }

  enqueue(packet) {
    this.placeSaid(packet.seq);
    this.queue.push(packet);
    this.placeSaid(packet.seq + 1);
  }

  /** Add what the user has said before a packet. */
  placeSaid(seq = Infinity) {
    for (; this.said[this.placed]?.after < seq; this.placed += 1) this.queue.push({ op: "SAID", p: this.said[this.placed] });
  }

  say(message) {
    this.said.push(message);
    this.placeSaid();
  }

  /** Remove a message that the server has refused. */
  unsay(message) {
    const at = this.said.indexOf(message);
    if (at < 0) return;
    this.said.splice(at, 1);
    if (at < this.placed) this.placed -= 1;
    this.bubbles.get(message.id)?.remove();
  }

  /** Add a seam below what was added before it. */
  addSeam(seam) {
    this.queue.push({ op: "SEAM", p: seam });
  }

  /** Whether nothing but text was added after a seam. */
  endsWith(seam) {
    return this.parts.lastElementChild === seam.element || this.queue.at(-1)?.p === seam;
  }

  /** The number of words that were added. */
  get words() {
    const waiting = this.queue.slice(this.drawn).map(({ op, p }) => (op === "DELTA" ? p : "")).join("");
    return `${this.text}${this.unfed}${waiting}`.match(/\S+/g)?.length ?? 0;
  }

  get waiting() {
    return this.drawn < this.queue.length || this.unfed !== "";
  }

  /** Draw a slice of what was added; return false if there was nothing. */
  draw() {
    if (!this.waiting) return false;
    const end = performance.now() + SLICE;
    while (this.waiting && performance.now() < end) {
      this.drawNext();
      this.parts.getBoundingClientRect(); // the layout counts, too
    }
    if (!this.waiting) [this.queue, this.drawn] = [[], 0];
    if (this.more) this.more.firstChild.textContent = `${this.left} more parts are not drawn; the timeline has all packets.`;
    if (!this.waiting) this.drawLive(); // what waits changes it at once
    return true;
  }

  /** Draw the next packet, or the text of several. */
  drawNext() {
    const { queue } = this;
    while (this.unfed.length < PIECE && queue[this.drawn]?.op === "DELTA") {
      this.unfed += queue[this.drawn].p;
      this.drawn += 1;
    }
    if (this.unfed) {
      const text = this.cropped ? this.unfed : this.unfed.slice(0, PIECE);
      this.unfed = this.unfed.slice(text.length);
      this.write(text);
      return;
    }
    try {
      this.show(queue[this.drawn]);
    } catch {
      // No value that an agent thinks of may end the drawing.
      this.append(notice("warning", "A part of the answer cannot be drawn.", "The timeline has its packet."));
    }
    this.drawn += 1;
  }

  /** Show a text that was kept from before a reload. */
  restore({ text, asked = text.length }) {
    this.write(text.slice(0, asked));
    if (asked < text.length) this.ask();
    this.write(text.slice(asked));
    for (const message of this.said.slice(this.placed)) this.showSaid(message);
    this.finish();
  }

  /** Draw what is left, and end the text: its last block is complete. */
  async end() {
    if (this.packets.length) this.placeSaid();
    while (this.draw()) await nextFrame();
    this.finish();
  }

  finish() {
    this.endText();
    for (const step of this.progress.values()) {
      if (step.element.dataset.step === "running") step.stop();
    }
    for (const [id, call] of this.tools) call.stop(id === this.waitingCall ? "waits" : "stopped");
  }

  addNotice(made) {
    this.foot.append(made);
  }

  show(packet) {
    const { op, p } = packet;
    if (op === "EVENT") this.showEvent(p);
    else if (op === "ERROR") this.append(streamError(p));
    else if (op === "CLOSE") this.showClose(p);
    else if (op === "SEAM") this.append(p.element);
    else if (op === "SAID") this.showSaid(p);
  }

  showSaid(message) {
    if (!this.said.includes(message)) return; // it was refused
    const bubble = said(message.text);
    this.bubbles.set(message.id, bubble);
    this.append(bubble);
    this.markUnread(this.ending);
  }

  /** Mark messages that the agent did not read before its end. */
  markUnread(end) {
    this.ending = end;
    const ids = list(end?.not_delivered);
    for (const id of ids) this.bubbles.get(id)?.classList.add("unread");
    this.unread = this.said.filter(({ id }) => ids.includes(id)).map(({ text }) => text);
  }

  showClose(payload) {
    const question = String(payload?.question ?? "");
    if (!this.text.slice(this.asked).endsWith(clean(question))) {
      this.ask();
      this.write(question);
    }
    this.endText();
    this.markUnread(payload);
    if (payload?.reason === "input_required") this.append(notice("info", "The agent waits for your answer.", "", this.waitingCall ? approval(this.decide) : null));
    if (payload?.reason === "auth_required") this.append(notice("info", "The agent waits for an authorization."));
  }

  // Text

  write(text) {
    this.thoughts = null;
    const all = clean(text);
    const room = MAX_TEXT - this.text.length;
    const shown = all.slice(0, Math.max(room, 0));
    this.text += shown;
    if (room >= 0 && all.length > room && !this.cropped) {
      this.cropped = notice("info", "The answer is longer than this page draws.", "The export has all of it.");
      this.addNotice(this.cropped);
    }
    for (const block of this.blocks.feed(shown)) this.finishBlock(block);
  }

  endText() {
    const rest = this.blocks.finish();
    if (rest.trim()) this.finishBlock(rest);
    else this.closeLive();
  }

  /** Begin or end a question. It is no Markdown: the user may permit what it says. */
  ask(asks = true) {
    if (asks === this.asked >= 0) return;
    this.endText();
    this.asked = asks ? this.text.length : undefined;
  }

  parse(text, limit) {
    return this.asked >= 0 ? [{ tag: "p", children: broken(text.trimEnd()) }] : parse(text, limit);
  }

  finishBlock(block) {
    this.openLive();
    if (this.live) this.drawBlock(this.live, block);
    this.closeLive();
  }

  drawBlock(place, block) {
    const nodes = this.parse(block, Math.min(2_000, MAX_NODES - this.nodes));
    this.nodes += size(nodes);
    this.level = setLevels(nodes, this.level);
    patch(place, nodes);
  }

  drawLive() {
    const { rest } = this.blocks;
    if (!rest.trim() || rest === this.liveText) return;
    this.openLive();
    this.liveText = rest;
    if (!this.live) return;
    const nodes = this.parse(rest);
    setLevels(nodes, this.level);
    patch(this.live, nodes);
  }

  openLive() {
    if (this.live || !this.room(this.nodes < MAX_NODES)) return;
    this.live = element("div", this.asked >= 0 ? "block as-written" : "block");
    this.parts.append(this.live);
  }

  closeLive() {
    this.live = null;
    this.liveText = null;
  }

  // Events

  append(part) {
    this.thoughts = null;
    if (!this.room()) return;
    // The text before it needs its place first.
    this.drawLive();
    this.parts.append(part);
  }

  room(few = true) {
    this.count += 1;
    if (this.count <= MAX_PARTS && few) return true;
    this.left += 1;
    this.more ??= this.foot.appendChild(notice("info", ""));
    return false;
  }

  showEvent(event) {
    const show = Object.hasOwn(EVENTS, event?.type ?? "") ? EVENTS[event.type] : null;
    const data = event?.data;
    if (show && data && typeof data === "object") show(this, data);
    else this.append(otherEvent(event));
  }

  addThought(data) {
    if (!this.thoughts) {
      const thoughts = new Thoughts();
      this.append(thoughts.element);
      this.thoughts = thoughts;
    }
    this.thoughts.add(textOf(data));
  }

  addProgress(data) {
    const label = typeof data.label === "string" ? data.label : "Progress";
    if (!this.progress.has(label)) {
      const step = new Progress(label);
      this.progress.set(label, step);
      const { thoughts } = this;
      this.append(step.element);
      this.thoughts = thoughts; // progress does not end a row of thoughts
    }
    this.progress.get(label).update(data);
  }

  addToolCall(data) {
    const call = new ToolCall(data);
    if (typeof data.call_id === "string") this.tools.set(data.call_id, call);
    this.append(call.element);
    return call;
  }

  endToolCall(data) {
    const call = this.tools.get(data.call_id) ?? this.addToolCall(data);
    call.end(data);
  }

  addUsage(data) {
    const used = addedUsage(this.used, data);
    if (!used) return this.append(otherEvent({ type: "USAGE", data }));
    const made = usage(used);
    if (this.usage) this.usage.replaceWith(made);
    else this.addNotice(made);
    [this.used, this.usage] = [used, made];
  }

  addTask(id, status) {
    const name = typeof id === "string" ? id : "";
    if (!this.tasks.has(name)) {
      const task = new Task(name);
      this.tasks.set(name, task);
      this.append(task.element);
    }
    this.tasks.get(name).update(status);
  }

  addArtifact(found) {
    const id = typeof found?.artifactId === "string" ? found.artifactId : "";
    const onlyText = Array.isArray(found?.parts) && found.parts.every((part) => typeof part?.text === "string");
    if (onlyText && (this.artifacts.has(id) || !found.name)) return;
    this.artifacts.add(id);
    this.append(artifact(found));
  }

  cite(data) {
    if (!Array.isArray(data.citations)) return this.append(otherEvent({ type: "CITATION_BLOCK", data }));
    if (!this.sources) {
      this.sources = new Sources();
      this.foot.prepend(this.sources.element);
    }
    for (const item of data.citations) if (item && typeof item === "object") this.sources.add(item);
  }

  addBlock(data) {
    this.endText();
    const blocks = new Blocks();
    const all = [...blocks.feed(clean(textOf(data).slice(0, MAX_TEXT))), blocks.finish()];
    for (const text of all.filter((each) => each.trim())) {
      const block = element("div", "block");
      this.drawBlock(block, text);
      this.append(block);
    }
  }
}

const REPORTS = ["TOOL_CALL", "TOOL_RESULT", "USAGE"]; // our server sends them with a status

const asks = (status) => /_REQUIRED$/.test(status?.state);

const EVENTS = {
  THOUGHT_TRACE: (answer, data) => answer.addThought(data),
  PROGRESS_INDICATOR: (answer, data) => answer.addProgress(data),
  CITATION_BLOCK: (answer, data) => answer.cite(data),
  MEDIA_CAROUSEL: (answer, data) => answer.append(media(data.items)),
  MARKDOWN_BLOCK: (answer, data) => answer.addBlock(data),
  ARTIFACT: (answer, data) => answer.append(artifact(data, { withText: true })),
  QUESTION: (answer, data) => {
    answer.waitingCall = data.call_id;
    answer.ask();
  },
  TOOL_CALL: (answer, data) => answer.addToolCall(data),
  TOOL_RESULT: (answer, data) => answer.endToolCall(data),
  USAGE: (answer, data) => answer.addUsage(data),
  "a2a.task": (answer, data) => {
    answer.addTask(data.id, data.status);
    answer.ask(asks(data.status) && !data.artifacts?.length);
    for (const found of Array.isArray(data.artifacts) ? data.artifacts : []) answer.addArtifact(found);
  },
  "a2a.status": (answer, data) => {
    answer.addTask(data.taskId, data.status);
    answer.ask(asks(data.status));
    const report = data.metadata?.coreason;
    if (REPORTS.includes(report?.type)) answer.showEvent(report);
  },
  "a2a.artifact": (answer, data) => answer.addArtifact(data.artifact),
  "a2a.message": () => {}, // its text follows
};
