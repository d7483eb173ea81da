// One answer on the page: takes packets, and draws what they say at the next frame.
//
// The parts keep the order of their packets, except that a part never splits a paragraph: it stays
// below the paragraph that is being written. So text only ever grows at its end.

import { Blocks } from "./blocks.js";
import { clean } from "./clean.js";
import { element, patch } from "./draw.js";
import { artifact, media, notice, otherEvent, Progress, Sources, streamError, Task, textOf, Thoughts } from "./events.js";
import { parse, size } from "./markdown.js";

const MAX_TEXT = 300_000; // characters that are drawn
const MAX_PARTS = 1_000; // blocks and events that are drawn
const MAX_NODES = 10_000; // elements of all blocks

/** Return the last number that is still valid after a REWIND event, or null. */
export function rewoundTo(packet) {
  const to = packet.op === "EVENT" && packet.p?.type === "REWIND" ? packet.p.data?.to_seq : null;
  return Number.isInteger(to) && to >= 0 ? to : null;
}

export class Answer {
  constructor() {
    this.element = element("div", "answer");
    this.element.dataset.testid = "answer";
    this.reset();
  }

  reset() {
    this.parts = element("div", "parts");
    this.foot = element("div", "foot");
    this.element.replaceChildren(this.parts, this.foot);
    this.queue = [];
    this.packets = []; // valid ones
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
    this.artifacts = new Set();
    this.sources = null;
  }

  /** Take a packet; `draw` shows it. */
  add(packet) {
    const to = rewoundTo(packet);
    if (to === null) {
      this.packets.push(packet);
      this.queue.push(packet);
      return;
    }
    const valid = this.packets.filter(({ seq }) => seq <= to);
    this.reset();
    this.packets = valid;
    this.queue = [...valid];
  }

  /** Draw what was added; return false if there was nothing. */
  draw() {
    const queue = this.queue;
    if (!queue.length) return false;
    this.queue = [];
    for (const packet of queue) {
      try {
        this.show(packet);
      } catch {
        // No value that an agent thinks of may end the drawing.
        this.append(notice("warning", "A part of the answer cannot be drawn.", "The timeline has its packet."));
      }
    }
    this.drawLive();
    return true;
  }

  /** Show a text that was kept from before a reload. */
  restore(kept) {
    this.write(kept);
    this.end();
  }

  /** End the text: its last block is complete. */
  end() {
    this.draw();
    this.endText();
    for (const step of this.progress.values()) {
      if (step.element.dataset.step === "running") step.stop();
    }
  }

  /** Add an element below the answer. */
  addNotice(made) {
    this.foot.append(made);
  }

  show(packet) {
    const { op, p } = packet;
    if (op === "DELTA") this.write(p);
    else if (op === "EVENT") this.showEvent(p);
    else if (op === "ERROR") this.append(streamError(p));
    else if (op === "CLOSE") this.showClose(p);
  }

  showClose(payload) {
    this.endText();
    if (payload?.reason === "input_required") this.append(notice("info", "The agent waits for your answer."));
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

  finishBlock(block) {
    this.openLive();
    if (this.live) this.drawBlock(this.live, block);
    this.closeLive();
  }

  drawBlock(place, block) {
    const nodes = parse(block, Math.min(2_000, MAX_NODES - this.nodes));
    this.nodes += size(nodes);
    patch(place, nodes);
  }

  drawLive() {
    const { rest } = this.blocks;
    if (!rest.trim() || rest === this.liveText) return;
    this.openLive();
    this.liveText = rest;
    if (this.live) patch(this.live, parse(rest));
  }

  openLive() {
    if (this.live || !this.room()) return;
    this.live = element("div", "block");
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

  room() {
    this.count += 1;
    if (this.count <= MAX_PARTS && this.nodes < MAX_NODES) return true;
    this.left += 1;
    this.more ??= this.foot.appendChild(notice("info", ""));
    this.more.firstChild.textContent = `${this.left} more parts are not drawn; the timeline has all packets.`;
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
    const block = element("div", "block");
    this.drawBlock(block, textOf(data).slice(0, MAX_TEXT));
    this.append(block);
  }
}

const EVENTS = {
  THOUGHT_TRACE: (answer, data) => answer.addThought(data),
  PROGRESS_INDICATOR: (answer, data) => answer.addProgress(data),
  CITATION_BLOCK: (answer, data) => answer.cite(data),
  MEDIA_CAROUSEL: (answer, data) => answer.append(media(data.items)),
  MARKDOWN_BLOCK: (answer, data) => answer.addBlock(data),
  ARTIFACT: (answer, data) => answer.append(artifact(data, { withText: true })),
  QUESTION: () => {}, // its text follows
  "a2a.task": (answer, data) => {
    answer.addTask(data.id, data.status);
    for (const found of Array.isArray(data.artifacts) ? data.artifacts : []) answer.addArtifact(found);
  },
  "a2a.status": (answer, data) => answer.addTask(data.taskId, data.status),
  "a2a.artifact": (answer, data) => answer.addArtifact(data.artifact),
  "a2a.message": () => {}, // its text follows
};
