// Splits Markdown that arrives in pieces into blocks that are complete, and the rest. No DOM.
//
// Complete blocks are drawn once and only the rest is drawn again, so a long answer costs as much for
// each character as a short one. A block ends at a blank line outside of code that is followed by a
// line without indentation. Items of a list belong together even with blank lines between them.

import { closesFence } from "./markdown.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)]) /;
const MAX_REST = 20_000; // a longer block is ended at a line, so that drawing it again stays cheap

export class Blocks {
  constructor() {
    this.lines = []; // complete lines of the block that is not complete
    this.partial = "";
    this.fence = "";
    this.size = 0;
  }

  /** The block that is not complete. */
  get rest() {
    return this.lines.length ? `${this.lines.join("\n")}\n${this.partial}` : this.partial;
  }

  /** Add text; return the blocks that it completes. */
  feed(text) {
    const done = [];
    const lines = (this.partial + text).split("\n");
    this.partial = lines.pop();
    for (const line of lines) {
      if (this.startsBlock(line)) done.push(this.take());
      this.add(line);
    }
    if (this.partial && this.startsBlock(this.partial)) done.push(this.take());
    return done.filter((block) => block.trim());
  }

  /** Return the rest as the last block. */
  finish() {
    this.lines.push(this.partial);
    this.partial = "";
    this.fence = "";
    return this.take();
  }

  startsBlock(line) {
    if (!this.lines.length || !line.trim()) return false;
    if (this.size > MAX_REST && !this.fence) return true;
    const afterBlank = !this.lines.at(-1).trim();
    if (!afterBlank || this.fence || /^\s/.test(line)) return false;
    // A partial line may still become an item of the list before it.
    return !(ITEM.test(this.lines[0]) && /^ {0,3}(?:[-*+](?: |$)|\d{1,9}(?:[.)]|$))/.test(line));
  }

  add(line) {
    this.lines.push(line);
    this.size += line.length;
    if (this.fence) {
      if (closesFence(line, this.fence)) this.fence = "";
    } else this.fence = FENCE.exec(line)?.[1] ?? "";
  }

  take() {
    const block = this.lines.join("\n");
    this.lines = [];
    this.size = 0;
    return block;
  }
}
