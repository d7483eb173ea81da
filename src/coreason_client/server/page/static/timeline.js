// Draws a trace on a canvas: connections as bands, packets by op and size, and what went wrong.
//
// Packets that fall on the same column of pixels are drawn as one, so the cost depends on the width.
// The marks are a listbox with one option, the selected one: screen readers and the keyboard reach
// every packet, and the document stays small.

import { describe, ticks } from "./trace.js";

const LEAST_HEIGHT = 156;
const PAD = 10;
const REACH = 12; // pixels from a click to a mark
const COLORS = ["delta", "event", "error", "close", "cut", "gap", "rewind", "band", "line", "muted", "text"];

// From the bottom, everything but the bars has a fixed height.
function rowsOf(height) {
  const axis = height - 20;
  return { bands: [4, 20], bars: [28, axis - 44], events: [axis - 36, axis - 22], dropped: [axis - 16, axis - 6], axis };
}

export class Timeline {
  /** `box` is the listbox, `option` its only option; `onSelect` gets the selected mark or null. */
  constructor(box, canvas, option, onSelect) {
    Object.assign(this, { box, canvas, option, onSelect });
    this.trace = null;
    this.range = null; // [from, to] in ms; null shows everything
    this.selected = null;
    this.dirty = true;
    this.width = 0;
    this.height = LEAST_HEIGHT;
    this.rows = rowsOf(LEAST_HEIGHT);
    this.colors = {};
    new ResizeObserver(() => this.resize()).observe(box);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", () => this.readColors());
    this.readColors();
    box.addEventListener("keydown", (event) => this.key(event));
    box.addEventListener("click", (event) => this.click(event));
  }

  show(trace) {
    this.trace = trace;
    this.range = null;
    this.select(null);
  }

  readColors() {
    const style = getComputedStyle(document.documentElement);
    for (const name of COLORS) this.colors[name] = style.getPropertyValue(`--${name}`).trim();
    this.dirty = true;
  }

  resize() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    this.width = Math.max(this.box.clientWidth, 100);
    this.height = Math.max(this.box.clientHeight, LEAST_HEIGHT);
    this.rows = rowsOf(this.height);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.ratio = ratio;
    this.dirty = true;
    this.draw();
  }

  // The range

  get bounds() {
    if (this.range) return this.range;
    const last = Math.max(this.trace?.last ?? 0, 1);
    // While packets arrive, the axis grows in steps, so that the marks stand still in between.
    if (this.trace?.ended) return [0, last * 1.02];
    const power = 10 ** Math.floor(Math.log10(Math.max(last, 100)));
    return [0, [1, 2, 5, 10].find((factor) => factor * power > last) * power];
  }

  x(at) {
    const [from, to] = this.bounds;
    return PAD + ((at - from) / (to - from)) * (this.width - 2 * PAD);
  }

  zoom(factor) {
    const [from, to] = this.bounds;
    const center = this.selected && this.selected.at >= from && this.selected.at <= to ? this.selected.at : (from + to) / 2;
    const span = Math.max((to - from) * factor, 1);
    const full = (this.trace?.last ?? 0) * 1.02;
    if (span >= full) return this.fit();
    const start = Math.min(Math.max(center - ((center - from) / (to - from)) * span, 0), full - span);
    this.range = [start, start + span];
    this.dirty = true;
  }

  fit() {
    this.range = null;
    this.dirty = true;
  }

  // Selection

  select(mark) {
    this.selected = mark;
    this.dirty = true;
    const marks = this.trace?.marks ?? [];
    const index = mark ? marks.indexOf(mark) : -1;
    this.option.textContent = mark ? describe(mark) : "Nothing selected";
    this.option.setAttribute("aria-selected", String(Boolean(mark)));
    this.option.setAttribute("aria-posinset", String(Math.max(index, 0) + 1));
    this.option.setAttribute("aria-setsize", String(Math.max(marks.length, 1)));
    if (mark) this.reveal(mark);
    this.onSelect(mark);
  }

  reveal(mark) {
    if (!this.range) return;
    const [from, to] = this.range;
    if (mark.at >= from && mark.at <= to) return;
    const start = Math.max(mark.at - (to - from) / 2, 0);
    this.range = [start, start + to - from];
  }

  move(step) {
    const marks = this.trace?.marks ?? [];
    if (!marks.length) return;
    const index = this.selected ? marks.indexOf(this.selected) : step > 0 ? -1 : marks.length;
    this.select(marks[Math.min(Math.max(index + step, 0), marks.length - 1)]);
  }

  key(event) {
    const action = {
      ArrowRight: () => this.move(1), ArrowDown: () => this.move(1),
      ArrowLeft: () => this.move(-1), ArrowUp: () => this.move(-1),
      PageDown: () => this.move(20), PageUp: () => this.move(-20),
      Home: () => this.move(-Infinity), End: () => this.move(Infinity),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.fit(),
      Escape: () => this.select(null),
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  click(event) {
    const area = this.canvas.getBoundingClientRect();
    const x = event.clientX - area.left;
    const y = event.clientY - area.top;
    this.select(this.nearest(x, y));
  }

  // The nearest mark in the row of the click, otherwise in any row. Of marks at the same time it is
  // the last one, which is drawn above.
  nearest(x, y) {
    let best = null;
    let distance = 2 * REACH;
    for (const mark of this.trace?.marks ?? []) {
      const across = Math.abs(this.x(mark.at) - x);
      if (across > REACH) continue;
      const [top, bottom] = this.rowOf(mark);
      const off = across + (y < top - 4 || y > bottom + 4 ? REACH : 0);
      if (off <= distance) [best, distance] = [mark, off];
    }
    return best;
  }

  rowOf(mark) {
    const { rows } = this;
    if (mark.kind === "duplicate") return rows.dropped;
    if (mark.kind !== "packet") return [rows.bands[0], rows.axis];
    return mark.packet.op === "DELTA" ? rows.bars : rows.events;
  }

  // Drawing

  draw() {
    if (!this.dirty || !this.width) return;
    this.dirty = false;
    const context = this.canvas.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    if (!this.trace) return;
    this.drawAxis(context);
    this.drawBands(context);
    this.drawMarks(context);
    this.drawSelected(context);
  }

  drawAxis(context) {
    const [from, to] = this.bounds;
    context.textAlign = "center";
    for (const at of ticks(from, to, Math.max(Math.floor(this.width / 90), 2))) {
      const x = Math.round(this.x(at)) + 0.5;
      context.fillStyle = this.colors.line;
      context.fillRect(x, this.rows.bars[0] - 6, 1, this.rows.axis - this.rows.bars[0] + 8);
      context.fillStyle = this.colors.muted;
      if (x > 24 && x < this.width - 24) context.fillText(label(at), x, this.rows.axis + 10);
    }
    context.fillStyle = this.colors.line;
    context.fillRect(PAD, this.rows.bars[1], this.width - 2 * PAD, 1);
  }

  drawBands(context) {
    const [top, bottom] = this.rows.bands;
    context.textAlign = "left";
    for (const band of this.trace.bands.filter(({ opened }) => opened !== null)) {
      const from = this.x(band.from);
      const to = this.x(band.to ?? this.trace.last);
      if (to < 0 || from > this.width) continue;
      const width = Math.max(to - from, 2);
      context.fillStyle = this.colors.band;
      context.fillRect(from, top, width, bottom - top);
      context.fillStyle = this.colors[band.outcome === "cut" || band.outcome === "error" ? "cut" : "delta"];
      context.fillRect(from, bottom - 2, width, 2);
      const name = [`Connection ${band.connection}`, String(band.connection)]
        .find((each) => context.measureText(each).width < width - 10);
      context.fillStyle = this.colors.text;
      if (name) context.fillText(name, Math.max(from, PAD) + 5, (top + bottom) / 2 - 1);
    }
  }

  // The marks are in the order of time, so one pass finds what falls on each column of pixels.
  drawMarks(context) {
    const { marks } = this.trace;
    const [from, to] = this.bounds;
    const scale = (this.width - 2 * PAD) / (to - from);
    const bars = []; // [column, bytes of its largest packet]
    const signs = new Map(); // kind of a sign -> its last column
    for (const mark of marks) {
      const x = PAD + (mark.at - from) * scale;
      if (x < 0) continue;
      if (x > this.width) break;
      const column = Math.round(x);
      const kind = mark.kind === "packet" ? mark.packet.op : mark.kind;
      if (kind !== "DELTA") {
        if (signs.get(kind) !== column) this.drawSign(context, mark, x);
        signs.set(kind, column);
      } else if (bars.at(-1)?.[0] !== column) bars.push([column, mark.bytes]);
      else if (bars.at(-1)[1] < mark.bytes) bars.at(-1)[1] = mark.bytes;
    }
    const thick = marks.length < this.width / 4 ? 2 : 1;
    context.fillStyle = this.colors.delta;
    for (const [column, bytes] of bars) {
      const height = this.barHeight(bytes);
      context.fillRect(column, this.rows.bars[1] - height, thick, height);
    }
  }

  // From 100 bytes, which an almost empty packet has, to the largest text, but at least 250.
  barHeight(bytes) {
    const [top, bottom] = this.rows.bars;
    const share = Math.log(Math.max(bytes, 100) / 100) / Math.log(Math.max(this.trace.largest, 250) / 100);
    return (bottom - top) * (0.2 + 0.8 * share);
  }

  drawSign(context, mark, x) {
    if (mark.kind === "duplicate") {
      const [top, bottom] = this.rows.dropped;
      context.strokeStyle = this.colors.muted;
      context.strokeRect(Math.round(x) - 2.5, top + 1.5, 5, bottom - top - 3);
    } else if (mark.kind === "packet") this.drawPacketSign(context, mark.packet.op, x);
    else this.drawLine(context, mark.kind, x);
  }

  drawPacketSign(context, op, x) {
    const [top, bottom] = this.rows.events;
    const middle = (top + bottom) / 2;
    context.fillStyle = context.strokeStyle = this.colors[op.toLowerCase()] ?? this.colors.muted;
    context.beginPath();
    if (op === "EVENT") context.rect(x - 3.5, middle - 3.5, 7, 7);
    else if (op === "ERROR") {
      context.moveTo(x, middle - 5);
      context.lineTo(x + 5, middle + 4);
      context.lineTo(x - 5, middle + 4);
    } else context.arc(x, middle, 4.5, 0, 7);
    context.fill();
  }

  drawLine(context, kind, x) {
    context.strokeStyle = this.colors[kind];
    context.beginPath();
    context.setLineDash(kind === "cut" ? [] : [3, 3]);
    context.moveTo(Math.round(x) + 0.5, this.rows.bands[0]);
    context.lineTo(Math.round(x) + 0.5, this.rows.axis);
    if (kind === "cut") {
      for (const side of [-4, 4]) {
        context.moveTo(x - side, this.rows.dropped[0] - 2);
        context.lineTo(x + side, this.rows.dropped[0] + 6);
      }
    }
    context.stroke();
    context.setLineDash([]);
  }

  drawSelected(context) {
    if (!this.selected) return;
    const x = this.x(this.selected.at);
    let [top, bottom] = this.rowOf(this.selected);
    if (this.selected.kind === "packet" && this.selected.packet.op === "DELTA") top = bottom - this.barHeight(this.selected.bytes);
    context.strokeStyle = this.colors.text;
    context.lineWidth = 1.5;
    context.strokeRect(x - 5.5, top - 2, 12, bottom - top + 4);
    context.lineWidth = 1;
  }
}


const label = (at) => (at < 1000 ? `${Number(at.toFixed(1))} ms` : `${Number((at / 1000).toFixed(3))} s`);
