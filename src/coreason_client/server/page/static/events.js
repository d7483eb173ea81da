// The parts of an answer besides its text, as elements: thoughts, progress, sources, media, errors,
// tasks and artifacts of A2A, and any other event.

import { clean, readableJson, readableSize, safeLink, shortened } from "./clean.js";
import { element, link, plain } from "./draw.js";
import { plural } from "./trace.js";

const MAX_LINE = 160;
const MAX_JSON = 20_000;
const MAX_THOUGHTS = 200;

const text = (value, fallback = "") => (typeof value === "string" ? clean(value) : fallback);
export const list = (value) => (Array.isArray(value) ? value : []);
const object = (value) => (value && typeof value === "object" ? value : {});

/** Return the text of a thought or a block, which agents send under different names. */
export function textOf(data) {
  const found = ["content", "text", "markdown", "thought"].find((name) => typeof object(data)[name] === "string");
  return found ? data[found] : JSON.stringify(data) ?? "";
}

/** Return an element that folds; `fill` makes the content when it is first opened. */
export function folded(className, title, fill) {
  const made = element("details", className, element("summary", "", title));
  made.addEventListener("toggle", () => made.childNodes.length === 1 && made.append(fill()), { once: true });
  return made;
}

/** Return JSON for people to read, up to a length. */
export function jsonBlock(value) {
  const json = readableJson(value);
  const block = element("pre", "json", ...plain(json.slice(0, MAX_JSON)));
  if (json.length > MAX_JSON) block.append(`\n… ${json.length - MAX_JSON} more characters`);
  block.tabIndex = 0;
  block.setAttribute("role", "region");
  block.setAttribute("aria-label", "JSON");
  return block;
}

/** Thoughts in a row: one line that folds out. */
export class Thoughts {
  constructor() {
    this.count = 0;
    this.title = element("span", "thought-title", "Thought");
    this.latest = element("span", "thought-latest");
    this.body = element("div", "thought-body");
    this.element = element("details", "thoughts", element("summary", "", this.title, " ", this.latest), this.body);
    this.element.dataset.testid = "thoughts";
  }

  add(thought) {
    this.count += 1;
    const line = clean(thought);
    this.title.textContent = this.count === 1 ? "Thought" : `${this.count} thoughts`;
    this.latest.textContent = shortened(line.slice(0, 500).replace(/\s+/g, " "), MAX_LINE);
    this.body.append(element("p", "", ...plain(line.slice(0, MAX_JSON))));
    if (this.count > MAX_THOUGHTS) this.body.firstChild.remove();
  }
}

const STEPS = { running: "", complete: "Done", failed: "Failed" };

export class Progress {
  constructor(label) {
    this.bar = element("progress");
    this.bar.max = 100;
    this.bar.setAttribute("aria-label", shortened(clean(label), MAX_LINE));
    this.amount = element("span", "progress-amount");
    this.element = element("div", "progress", element("span", "progress-label", shortened(clean(label), MAX_LINE)), this.bar, this.amount);
    this.element.dataset.testid = "progress";
  }

  stop() {
    this.element.dataset.step = "stopped";
    this.bar.value = this.bar.position < 0 ? 0 : this.bar.value;
    this.amount.textContent = "Stopped";
  }

  update({ status, progress_percent: percent }) {
    const step = Object.hasOwn(STEPS, status) ? status : "running";
    this.element.dataset.step = step;
    const known = Number.isFinite(percent);
    if (known) this.bar.value = Math.min(Math.max(percent, 0), 100);
    else if (step === "running") this.bar.removeAttribute("value");
    else this.bar.value = step === "complete" ? 100 : 0;
    this.amount.textContent = STEPS[step] || (known ? `${Math.round(this.bar.value)}%` : "");
  }
}

/** A call of a tool, and how it ended; it folds out. */
export class ToolCall {
  constructor({ name, arguments: given }) {
    this.given = given;
    this.result = null;
    this.state = element("span", "tool-state", "running");
    this.body = element("div", "tool-body");
    const shown = shortened(clean(brief(given)), MAX_LINE);
    this.element = element("details", "tool", element("summary", "", element("span", "tool-name", shortened(text(name, "tool"), 60)), " ", element("span", "tool-arguments", shown), " ", this.state), this.body);
    this.element.dataset.testid = "tool";
    this.element.dataset.state = "running";
    this.element.addEventListener("toggle", () => this.fill());
  }

  end(result) {
    this.result = result;
    const { is_error: failed, seconds: took } = result;
    this.element.dataset.state = failed ? "failed" : "done";
    this.state.textContent = [failed ? "failed" : "done", Number.isFinite(took) ? `${Number(took.toFixed(2))} s` : ""].filter(Boolean).join(" · ");
    this.fill();
  }

  stop(word) {
    if (this.element.dataset.state === "running") this.state.textContent = word;
  }

  fill() {
    if (!this.element.open) return;
    const parts = [element("p", "tool-label", "Arguments"), jsonBlock(this.given ?? {})];
    if (this.result) parts.push(element("p", "tool-label", "Result"), jsonBlock(parsed(this.result.result)));
    this.body.replaceChildren(...parts);
  }
}

/** Return the arguments of a call in one line. */
function brief(given) {
  if (typeof given === "string") return given.slice(0, 1_000);
  const shown = Object.entries(object(given)).slice(0, 10).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  return shown.join(", ").slice(0, 1_000);
}

// A result is often JSON in a string.
function parsed(value) {
  try {
    return typeof value === "string" ? JSON.parse(value) : value;
  } catch {
    return value;
  }
}

/** A place in the answer at which something happened to its connection, in one line. */
export class Seam {
  constructor(what) {
    this.what = what;
    this.count = 0;
    this.element = element("p", "seam");
    this.element.dataset.testid = "seam";
  }

  /** Say that it happened, once more, after some words. */
  happen(words) {
    this.count += 1;
    const times = this.count === 1 ? "" : ` ${this.count} times, last`;
    this.about = `${this.what}${times} ${words ? `after ${plural(words, "word")}` : "before the first word"}`;
    this.say("waiting", "reconnecting…");
  }

  say(state, outcome) {
    this.element.dataset.state = state;
    this.element.textContent = `${this.about} · ${outcome}`;
  }
}

/** The sources of an answer, each once. */
export class Sources {
  constructor() {
    this.known = new Set();
    this.list = element("ol");
    this.element = element("section", "sources", element("h3", "", "Sources"), this.list);
    this.element.dataset.testid = "sources";
  }

  add(item) {
    const uri = text(item.uri);
    if (this.known.has(uri) || this.known.size >= 200) return;
    this.known.add(uri);
    const href = safeLink(uri);
    const title = text(item.title) || uri || "Source";
    const entry = element("li", "", href ? link(href, title) : element("span", "source-title", title));
    const sure = item.confidence > 0 && item.confidence < 1 ? `${Math.round(item.confidence * 100)}% confidence` : "";
    const about = [uri === title ? "" : shortened(uri.replace(/^https?:\/\//, ""), MAX_LINE), sure].filter(Boolean).join(" · ");
    if (about) entry.append(" ", element("span", "source-about", about));
    if (item.snippet) entry.append(element("p", "snippet", shortened(text(item.snippet), 400)));
    this.list.append(entry);
  }
}

/** Return a carousel; nothing is requested before a click, because a picture can be a tracker. */
export function media(items) {
  const made = element("div", "media", ...list(items).slice(0, 50).map(mediaItem));
  made.dataset.testid = "media";
  return made;
}

const PLAYERS = { image: "img", audio: "audio", video: "video" };

function mediaItem(given) {
  const item = object(given);
  const type = text(item.mime_type).split("/")[0];
  const kind = Object.hasOwn(PLAYERS, type) ? PLAYERS[type] : null;
  const label = text(item.alt_text) || text(item.mime_type) || "media";
  const figure = element("figure", "medium", element("figcaption", "", shortened(label, MAX_LINE)));
  const data = kind === "img" && /^data:image\/(?:png|jpeg|gif|webp);/i.test(item.url ?? "") ? item.url : null;
  const href = data ?? safeLink(item.url);
  if (!href) figure.append(element("code", "", shortened(text(item.url), MAX_LINE)));
  else if (!kind || !/^(?:https|data):/.test(href)) figure.append(link(href, `Open ${shortened(href, 60)}`));
  else figure.prepend(loadButton(kind, href, label, data ? "Show picture" : `Load from ${new URL(href).host}`));
  return figure;
}

function loadButton(tag, href, label, title) {
  const button = element("button", "load", title);
  button.type = "button";
  button.addEventListener("click", () => {
    const player = element(tag);
    player.referrerPolicy = "no-referrer";
    if (tag === "img") player.alt = label;
    else player.controls = true;
    player.addEventListener("error", () => player.replaceWith(element("p", "notice", "This could not be loaded.")));
    player.src = href;
    button.replaceWith(player);
  });
  return button;
}

/** Return a notice: `level` is info, warning, transient or fatal. */
export function notice(level, title, message, ...more) {
  const made = element("div", `notice ${level}`, element("strong", "", clean(title)), message ? element("p", "", ...plain(shortened(clean(message), 4000))) : null, ...more);
  made.dataset.testid = `notice-${level}`;
  if (level === "fatal") made.setAttribute("role", "alert");
  return made;
}

/** Return a message of the user to a running answer. */
export function said(words) {
  const made = element("p", "question said", element("span", "hidden-label", "You said: "), ...plain(clean(words)));
  made.dataset.testid = "said";
  return made;
}

/** Return the buttons for a call that waits: `decide` gets whether it is approved, and why not. */
export function approval(decide) {
  const reason = element("input", "reason");
  const approve = element("button", "primary", "Approve");
  const deny = element("button", "", "Deny");
  reason.placeholder = "Reason (optional)";
  reason.setAttribute("aria-label", "Reason (optional)");
  reason.hidden = true;
  approve.type = "button";
  approve.addEventListener("click", () => decide(true, ""));
  const made = element("form", "approval", approve, deny, reason);
  made.dataset.testid = "approval";
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!reason.hidden) return decide(false, reason.value.trim());
    reason.hidden = false;
    reason.focus();
  });
  return made;
}

/** Return the notice for a StreamError, with its details folded. */
export function streamError(error) {
  const level = { WARNING: "warning", TRANSIENT: "transient" }[error?.severity] ?? "fatal";
  const details = error?.details ? folded("event", "Details", () => jsonBlock(error.details)) : null;
  return notice(level, text(error?.code, "error"), text(error?.message), details);
}

/** A task of A2A and its state. */
export class Task {
  constructor(id) {
    this.state = element("span", "task-state");
    this.message = element("span", "task-message");
    this.element = element("div", "task", element("span", "task-name", `Task ${shortened(clean(id), 13)}`), this.state, this.message);
    this.element.dataset.testid = "task";
  }

  update(status) {
    const state = text(object(status).state).replace(/^TASK_STATE_/, "").toLowerCase().replaceAll("_", " ");
    this.element.dataset.state = state.replaceAll(" ", "-");
    this.state.textContent = state || "unknown";
    // The text of any other state is in the answer, or in the error.
    const about = /^(?:working|submitted)$/.test(state) ? object(status).message : null;
    const said = list(object(about).parts).map((part) => text(object(part).text)).join(" ");
    this.message.textContent = shortened(said, MAX_LINE);
  }
}

/** Return an artifact: its name, and its parts other than text, which is in the answer. */
export function artifact(data, { withText = false } = {}) {
  const { name, artifactId, parts } = object(data);
  const made = element("div", "artifact", element("span", "artifact-name", `Artifact ${text(name) || text(artifactId) || ""}`.trim()));
  made.dataset.testid = "artifact";
  for (const part of list(parts).slice(0, 50)) made.append(...artifactPart(object(part), withText));
  return made;
}

function artifactPart(part, withText) {
  if (typeof part.text === "string") return withText ? [element("p", "artifact-text", ...plain(clean(part.text).slice(0, MAX_JSON)))] : [];
  if (part.data !== undefined) return [folded("event", "Data", () => jsonBlock(part.data))];
  const name = [text(part.filename), text(part.mediaType)].filter(Boolean).join(" · ") || "file";
  const href = safeLink(part.url);
  if (href) return [element("p", "", link(href, name))];
  const size = typeof part.raw === "string" ? ` · ${readableSize(Math.floor(part.raw.replace(/=+$/, "").length * 0.75))}` : "";
  return [element("p", "", name + size)];
}

/** Return any other event as a line that folds out. */
export function otherEvent(event) {
  const { type, data } = object(event);
  const made = folded("event", `${text(type, "EVENT")} ${shortened(clean(summaryOf(object(data))), 100)}`.trim(), () => jsonBlock(event));
  made.dataset.testid = "event";
  return made;
}

function summaryOf(data) {
  return text(data.name) || text(data.title) || text(data.message);
}

/** Return the sum of usage and that of an event, or null if the event has none. */
export function addedUsage(before, { model, prompt_tokens: sent, completion_tokens: written }) {
  if (!Number.isInteger(sent) || !Number.isInteger(written)) return null;
  if (!before) return { model, prompt_tokens: sent, completion_tokens: written };
  const same = before.model === model ? model : null; // the sum of several models has no name
  return { model: same, prompt_tokens: before.prompt_tokens + sent, completion_tokens: before.completion_tokens + written };
}

/** Return the tokens that an answer took as a line. */
export function usage(data) {
  const { prompt_tokens: sent, completion_tokens: written } = data;
  const made = element("p", "usage", [shortened(text(data.model), 80), `${plural(sent, "token")} read`, `${plural(written, "token")} written`].filter(Boolean).join(" · "));
  made.dataset.testid = "usage";
  return made;
}
