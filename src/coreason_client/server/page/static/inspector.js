// The panel beside the conversation: the figures of an answer, and the details of a mark.

import { clean, readableSize } from "./clean.js";
import { element } from "./draw.js";
import { jsonBlock } from "./events.js";
import { describe, seconds } from "./trace.js";

const $ = (id) => document.getElementById(id);

function setText(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

/** Show the figures of a trace. */
export function drawFigures({ figures, rate }) {
  setText("figure-first", figures.firstPacket === null ? "–" : seconds(figures.firstPacket));
  setText("figure-rate", rate === null ? "–" : rate.toFixed(rate >= 100 ? 0 : 1));
  setText("figure-packets", String(figures.packets));
  setText("figure-bytes", readableSize(figures.bytes));
  setText("figure-reconnects", String(figures.reconnects));
  setText("figure-duplicates", String(figures.duplicates));
  setText("brief", figures.packets ? `${figures.packets} packets, ${figures.reconnects} reconnects` : "no packets yet");
  if (figures.lastSeq !== null) document.body.dataset.lastSeq = figures.lastSeq;
}

/** Show a mark of a trace, or that none is selected. */
export function showDetails(mark, trace) {
  $("details-empty").hidden = Boolean(mark);
  $("details-body").hidden = !mark;
  if (!mark) return;
  const time = new Date(performance.timeOrigin + trace.started + mark.at);
  const rows = [["When", `${seconds(mark.at)} after the start, ${time.toLocaleTimeString()}`], ["Connection", `#${mark.connection}`]];
  if (mark.packet) {
    rows.push(["Size", `${mark.bytes} bytes`], ["Written", mark.packet.t], ["SSE id", mark.id || "none"]);
  }
  $("details-title").textContent = describe(mark);
  $("details-rows").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", clean(value))]));
  $("details-json").replaceChildren(mark.packet ? jsonBlock(mark.packet) : "");
  $("copy-json").hidden = !mark.packet;
}

/** Open or close the panel, where it lies below the conversation. */
export function openInspector(open) {
  $("inspector").classList.toggle("open", open);
  $("fold").setAttribute("aria-expanded", String(open));
}
