// The panel beside the conversation: figures, and details of a mark. And the card.

import { clean, readableSize, safeLink, shortened } from "./clean.js";
import { element, link } from "./draw.js";
import { folded, jsonBlock } from "./events.js";
import { describe, plural, seconds } from "./trace.js";

const $ = (id) => document.getElementById(id);

function setText(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

/** Show the figures of a trace. */
export function drawFigures({ figures, rate }) {
  setText("figure-first", figures.firstPacket === null ? "–" : seconds(figures.firstPacket));
  setText("figure-rate", rate === null ? "–" : rate < 100 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en"));
  setText("figure-packets", figures.packets.toLocaleString("en"));
  setText("figure-bytes", readableSize(figures.bytes));
  setText("figure-reconnects", String(figures.reconnects));
  setText("figure-duplicates", String(figures.duplicates));
  const again = figures.reconnects ? ` · ${plural(figures.reconnects, "reconnect")}` : "";
  setText("brief", figures.packets ? `${plural(figures.packets, "packet")}${again}` : "every packet of the answer");
  if (figures.lastSeq !== null) document.body.dataset.lastSeq = figures.lastSeq;
}

const RARE = { gap: "gaps", rewind: "rewinds", duplicate: "duplicates" };
let told = null; // the last line of the story that is shown

/** Show what happened as a list, and in the legend only what has happened. */
export function drawStory({ story, figures }) {
  if (story.at(-1) === told) return;
  told = story.at(-1);
  for (const [kind, name] of Object.entries(RARE)) $(`legend-${kind}`).hidden = !figures[name];
  $("story-empty").hidden = story.length > 0;
  $("story").replaceChildren(...story.map(({ at, kind, text }) =>
    element("li", `story-${kind}`, element("span", "story-time", seconds(at)), element("span", "", text))));
  const box = $("happened").parentElement;
  box.scrollTop = box.scrollHeight;
}

/** Show a mark of a trace, or that none is selected. */
export function showDetails(mark, trace) {
  $("happened").hidden = Boolean(mark);
  $("details-body").hidden = !mark;
  if (!mark) return;
  const time = new Date(performance.timeOrigin + trace.started + mark.at);
  const rows = [["When", `${seconds(mark.at)} after the start, ${time.toLocaleTimeString()}`], ["Connection", String(mark.connection)]];
  if (mark.packet) {
    rows.push(["Size", `${mark.bytes} bytes`], ["Written", mark.packet.t], ["Event id", mark.id || "none"]);
  }
  $("details-title").textContent = describe(mark);
  $("details-rows").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", clean(value))]));
  $("details-json").replaceChildren(mark.packet ? jsonBlock(mark.packet) : "");
  $("copy-json").hidden = !mark.packet;
}

/** Open or close the panel, where it lies below the conversation. */
export function openInspector(open) {
  $("inspector").classList.toggle("open", open);
  document.querySelector("main").classList.toggle("inspecting", open);
  $("fold").setAttribute("aria-expanded", String(open));
}

// The card of an A2A agent, as rows of names and values.

const text = (value) => (typeof value === "string" ? shortened(clean(value), 2000) : "");
const list = (value) => (Array.isArray(value) ? value.filter((item) => item && typeof item === "object").slice(0, 50) : []);

/** Fill an element with a card. */
export function showCard(box, card) {
  const rows = element("dl", "rows card-rows");
  for (const [name, value] of cardRows(card)) rows.append(element("dt", "", name), element("dd", "", value));
  box.replaceChildren(element("p", "card-about", text(card.description)), rows, folded("event", "The whole card as JSON", () => jsonBlock(card)));
}

function* cardRows(card) {
  if (card.provider?.organization) yield ["Provider", text(card.provider.organization)];
  if (card.documentationUrl) yield ["Documentation", linked(card.documentationUrl)];
  for (const found of list(card.supportedInterfaces)) {
    yield ["Interface", `${text(found.url)} (${text(found.protocolBinding)} ${text(found.protocolVersion)})`];
  }
  const able = Object.entries(card.capabilities ?? {}).filter(([, value]) => value === true).map(([name]) => name);
  if (able.length) yield ["Capabilities", able.join(", ")];
  for (const skill of list(card.skills)) yield [text(skill.name) || "Skill", text(skill.description) || text(skill.id)];
}

function linked(address) {
  const href = safeLink(address);
  return href ? link(href, href) : text(address);
}

/** Return questions that the agent's card gives as examples. */
export function examples(card) {
  const found = list(card?.skills).flatMap((skill) => (Array.isArray(skill.examples) ? skill.examples : []));
  return found.filter((example) => typeof example === "string" && example.trim()).slice(0, 3).map((example) => shortened(clean(example), 120));
}
