// Splits Markdown that arrives in pieces into blocks that are complete, and the rest. No DOM.
//
// Complete blocks are drawn once and only the rest is drawn again, so a long answer costs as much for
// each character as a short one. A block ends at a blank line outside of code that is followed by a
// line without indentation. Items of a list belong together even with blank lines between them.
// What is too long for a block is divided, so that each is drawn within one frame.

import { closesFence, wholeUpTo } from "./markdown.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)]) /;
const STRUCTURE = /^(?:\s|[-*+>] |\d{1,9}[.)] )|\|/; // lists, quotes and tables, which belong together
const MAX_PLAIN = 4_000; // characters of a paragraph, which is drawn again whenever it grows
const MAX_REST = 20_000; // of everything else
const MAX_LINE = 2_000; // a line of twice that is divided

export class Blocks {
  constructor() {
    this.lines = []; // complete lines of the block that is not complete
    this.partial = "";
    this.fence = "";
    this.opening = ""; // the line that began the code
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
    for (const line of lines) this.add(this.shorten(line, done));
    this.partial = this.shorten(this.partial, done);
    return done.filter((block) => block.trim());
  }

  /** Push the blocks that end before or within a line; return the rest of the line. */
  shorten(line, done) {
    if (this.startsBlock(line)) done.push(this.take());
    let rest = line;
    while (rest.length > 2 * MAX_LINE) {
      const space = this.fence ? -1 : rest.lastIndexOf(" ", MAX_LINE);
      const end = space > 0 ? space + 1 : wholeUpTo(rest, MAX_LINE);
      this.lines.push(rest.slice(0, end));
      rest = rest.slice(end);
      done.push(this.take());
    }
    return rest;
  }

  /** Return the rest as the last block. */
  finish() {
    if (this.fence && !this.size && !this.partial) this.lines = []; // all of the code was taken
    this.lines.push(this.partial);
    this.partial = "";
    this.fence = "";
    return this.take();
  }

  startsBlock(line) {
    if (!this.lines.length || !line.trim()) return false;
    const plain = !this.fence && ![this.lines[0], this.lines.at(-1), line].some((each) => STRUCTURE.test(each));
    if (this.size > (plain ? MAX_PLAIN : MAX_REST)) return !this.fence || !closesFence(line, this.fence);
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
    } else {
      this.fence = FENCE.exec(line)?.[1] ?? "";
      this.opening = line;
    }
  }

  // Code that is not complete goes on in the next block.
  take() {
    const block = this.lines.join("\n");
    this.lines = this.fence ? [this.opening] : [];
    this.size = 0;
    return block;
  }
}
