// Markdown to a tree of nodes, in time that grows with the length of the text. No DOM, no HTML.
//
// A node is a string, or {tag, children} with `href`, `start`, `align`, `language` or `checked`. HTML in
// the text stays text. Everything that nests has a limit, because the text comes from an agent.
// A line of dashes below a paragraph is a rule and no heading: a line that streams in must not
// change what is above it.

import { clean, safeLink } from "./clean.js";

const MAX_DEPTH = 6; // quotes and lists within each other
const MAX_OPENERS = 20; // emphasis that waits for its end
const MAX_INLINE = 20_000; // characters of a paragraph that is searched for emphasis and links
const MAX_RUN = 1_000; // letters without a space; browsers need seconds for the lines of a long run
const MAX_CELLS = 50;
const MAX_NODES = 2_000;

let left = 0; // nodes that may still be made for the current text

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?=[ \t]|$)/;
const QUOTE = /^ {0,3}> ?/;
const SPECIAL = /[\\`*_~[\]!<&\n]|https?:\/\//g;
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}\p{S}]/u;
const ENTITY = /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(amp|lt|gt|quot|apos|nbsp|copy|mdash|ndash|hellip));/iy;
const ENTITIES = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", mdash: "—", ndash: "–",
  hellip: "…",
};

/** Return the nodes of a text; after `limit` nodes with a tag, the rest of it is plain text. */
export function parse(text, limit = MAX_NODES) {
  left = limit;
  return parseBlocks(clean(text).replace(/\t/g, "    ").split("\n"), 0);
}

/** Return the number of nodes with a tag. */
export function size(nodes) {
  return nodes.reduce((sum, node) => (typeof node === "string" ? sum : sum + 1 + size(node.children)), 0);
}

/** Give the headings levels below the page's own, without a gap after `last`; return the last one. */
export function setLevels(nodes, last) {
  for (const node of nodes) {
    const depth = Number(/^h([1-6])$/.exec(node.tag)?.[1]);
    if (depth) last = node.level = Math.min(depth + 2, last + 1, 6);
    else if (typeof node !== "string") last = setLevels(node.children, last);
  }
  return last;
}

// Blocks: each reader gets the lines and the number of the first one, and returns a node and the
// number of the line after it, or null if the block is of another kind.

function parseBlocks(lines, depth) {
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    if (left <= 0) {
      nodes.push({ tag: "p", children: broken(lines.slice(at).join("\n")) });
      break;
    }
    left -= 1;
    const [node, next] = readBlock(lines, at, depth);
    nodes.push(node);
    at = next;
  }
  return nodes;
}

function readBlock(lines, at, depth) {
  return (
    readFence(lines, at) ??
    readHeading(lines, at) ??
    readRule(lines, at) ??
    (depth < MAX_DEPTH ? readQuote(lines, at, depth) ?? readList(lines, at, depth) : null) ??
    readTable(lines, at) ??
    readIndented(lines, at) ??
    readParagraph(lines, at)
  );
}

function code(text, language) {
  left -= 2;
  const node = { tag: "pre", children: [{ tag: "code", children: text ? [text] : [] }] };
  if (language) node.language = language;
  return node;
}

function readFence(lines, at) {
  const found = FENCE.exec(lines[at]);
  if (!found) return null;
  const [, fence, language] = found;
  const indent = lines[at].indexOf(fence);
  const body = [];
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    if (closesFence(lines[next], fence)) {
      next += 1;
      break;
    }
    body.push(withoutIndent(lines[next], indent));
  }
  return [code(body.join("\n"), language), next];
}

/** Return true if a line ends the code that `fence` began. */
export function closesFence(line, fence) {
  const text = line.trim();
  return text.length >= fence.length && text === fence[0].repeat(text.length) && indentOf(line) < 4;
}

function readHeading(lines, at) {
  const found = HEADING.exec(lines[at]);
  if (!found) return null;
  let text = lines[at].slice(found[0].length).trim();
  let end = text.length;
  while (end && text[end - 1] === "#") end -= 1;
  if (end === 0 || text[end - 1] === " ") text = text.slice(0, end).trim();
  return [{ tag: `h${found[1].length}`, children: parseInline(text) }, at + 1];
}

function isRule(line) {
  if (line.length > 200 || indentOf(line) > 3) return false;
  return /^(?:\*{3,}|-{3,}|_{3,})$/.test(line.replaceAll(" ", ""));
}

function readRule(lines, at) {
  return isRule(lines[at]) ? [{ tag: "hr", children: [] }, at + 1] : null;
}

function readQuote(lines, at, depth) {
  if (!QUOTE.test(lines[at])) return null;
  const body = [];
  let next = at;
  for (; next < lines.length && QUOTE.test(lines[next]); next += 1) {
    body.push(lines[next].replace(QUOTE, ""));
  }
  return [{ tag: "blockquote", children: parseBlocks(body, depth + 1) }, next];
}

function readList(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first) return null;
  const kind = kindOf(first[2]);
  const items = [];
  let loose = false;
  let next = at;
  while (next < lines.length && (left > 0 || !items.length)) {
    left -= 1;
    const found = ITEM.exec(lines[next]);
    if (!found || kindOf(found[2]) !== kind || isRule(lines[next])) break;
    const [body, after] = itemLines(lines, next, found[0].length);
    const children = parseBlocks(body, depth + 1);
    loose ||= children.filter((child) => child.tag === "p").length > 1;
    items.push(listItem(children));
    next = after;
    const blanks = countBlanks(lines, next);
    if (blanks && ITEM.test(lines[next + blanks] ?? "")) {
      loose ||= kindOf(ITEM.exec(lines[next + blanks])[2]) === kind;
      next += blanks;
    }
  }
  if (!loose) items.forEach(tighten);
  const list = { tag: /\d/.test(first[2]) ? "ol" : "ul", children: items };
  const start = Number.parseInt(first[2], 10);
  if (list.tag === "ol" && start !== 1) list.start = start;
  return [list, next];
}

const kindOf = (marker) => marker.at(-1);

function countBlanks(lines, at) {
  let count = 0;
  while (at + count < lines.length && !lines[at + count].trim()) count += 1;
  return count;
}

// Models often indent nested lists by two spaces, whatever the width of the marker.
function itemLines(lines, at, marker) {
  const line = lines[at];
  const spaces = Math.min(Math.max(indentOf(line.slice(marker)), 1), 4);
  const width = marker + spaces;
  const body = [line.slice(width)];
  let next = at + 1;
  let fence = FENCE.exec(body[0])?.[1] ?? "";
  for (; next < lines.length; next += 1) {
    const blanks = countBlanks(lines, next);
    const following = lines[next + blanks];
    if (following === undefined) break;
    const inside = indentOf(following) >= Math.min(width, 2);
    if (!inside && (blanks || fence || ITEM.test(following) || startsBlock(following))) break;
    for (let blank = 0; blank < blanks; blank += 1) body.push("");
    const text = inside ? withoutIndent(following, width) : following;
    if (fence && closesFence(text, fence)) fence = "";
    else if (!fence) fence = FENCE.exec(text)?.[1] ?? "";
    body.push(text);
    next += blanks;
  }
  return [body, next];
}

function listItem(children) {
  const item = { tag: "li", children };
  const text = children[0]?.tag === "p" ? children[0].children[0] : null;
  if (typeof text === "string" && /^\[[ xX]\] /.test(text)) {
    item.checked = text[1] !== " ";
    children[0].children[0] = text.slice(4);
  }
  return item;
}

function tighten(item) {
  item.children = item.children.flatMap((child) => (child.tag === "p" ? child.children : [child]));
}

function readTable(lines, at) {
  if (!lines[at].includes("|") || !/^[ |:-]+$/.test(lines[at + 1] ?? "")) return null;
  const head = cells(lines[at]);
  const columns = cells(lines[at + 1]);
  if (columns.length !== head.length || !columns.every((cell) => /^:?-+:?$/.test(cell))) return null;
  const align = columns.map((cell) =>
    cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : null);
  const rows = [];
  let next = at + 2;
  for (; next < lines.length && lines[next].includes("|") && left > 0; next += 1) {
    left -= align.length + 1;
    rows.push(tableRow("td", cells(lines[next]), align));
  }
  const parts = [{ tag: "thead", children: [tableRow("th", head, align)] }];
  if (rows.length) parts.push({ tag: "tbody", children: rows });
  return [{ tag: "table", children: parts }, next];
}

function tableRow(tag, texts, align) {
  const children = align.map((side, column) => {
    const cell = { tag, children: parseInline(texts[column] ?? "") };
    if (side) cell.align = side;
    return cell;
  });
  return { tag: "tr", children };
}

// A bar in a code span or after a backslash does not end a cell.
function cells(line) {
  const text = line.trim().replace(/^\|/, "");
  const found = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < text.length && found.length < MAX_CELLS; at += 1) {
    const char = text[at];
    if (char === "\\" && text[at + 1] === "|") {
      cell += "|";
      at += 1;
    } else if (char === "|" && !quoted) {
      found.push(cell.trim());
      cell = "";
    } else {
      if (char === "`") quoted = !quoted && text.includes("`", at + 1);
      cell += char;
    }
  }
  if (cell.trim()) found.push(cell.trim());
  return found;
}

function readIndented(lines, at) {
  if (indentOf(lines[at]) < 4) return null;
  let next = at;
  while (next < lines.length && (indentOf(lines[next]) >= 4 || !lines[next].trim())) next += 1;
  while (!lines[next - 1].trim()) next -= 1;
  return [code(lines.slice(at, next).map((line) => withoutIndent(line, 4)).join("\n")), next];
}

function readParagraph(lines, at) {
  let next = at + 1;
  while (next < lines.length && lines[next].trim() && !startsBlock(lines[next])) next += 1;
  const text = lines.slice(at, next).map((line) => line.trimStart()).join("\n").trimEnd();
  return [{ tag: "p", children: parseInline(text) }, next];
}

function startsBlock(line) {
  if (FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || isRule(line)) return true;
  const item = ITEM.exec(line);
  // A number at the start of a line is a list only if it is 1: it may belong to the sentence.
  return Boolean(item) && item[0].length < line.trimEnd().length && !/^(?!1[.)])\d/.test(item[2]);
}

function indentOf(line) {
  let count = 0;
  while (line[count] === " ") count += 1;
  return count;
}

function withoutIndent(line, width) {
  return line.slice(Math.min(indentOf(line), width));
}

// Inline

/** Return the nodes of a paragraph's text. */
export function parseInline(text) {
  if (text.length > MAX_INLINE || left <= 0) return broken(text);
  const nodes = new Inline(text).parse();
  left -= nodes.length;
  return nodes;
}

class Inline {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.nodes = [];
    this.openers = []; // of emphasis: {mark, index}, in the order of the text
    this.brackets = []; // {index, image, from}
    this.unclosed = new Set(); // lengths of code fences that are never closed
  }

  parse() {
    while (this.at < this.text.length) this.step();
    return merged(this.nodes);
  }

  step() {
    SPECIAL.lastIndex = this.at;
    const found = SPECIAL.exec(this.text);
    const end = found ? found.index : this.text.length;
    if (end > this.at) this.nodes.push(this.text.slice(this.at, end));
    this.at = end;
    if (found) this.special(found[0]);
  }

  special(mark) {
    switch (mark) {
      case "\\": return this.escape();
      case "`": return this.codeSpan();
      case "*": case "_": case "~": return this.emphasis(mark);
      case "[": return this.open(1, false);
      case "!": return this.text[this.at + 1] === "[" ? this.open(2, true) : this.literal(1);
      case "]": return this.closeBracket();
      case "<": return this.autolink();
      case "&": return this.entity();
      case "\n": return this.newline();
      default: return this.bareLink(mark);
    }
  }

  literal(length) {
    this.nodes.push(this.text.slice(this.at, this.at + length));
    this.at += length;
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === "\n") {
      this.nodes.push({ tag: "br", children: [] });
      this.at += 2;
    } else if (next && /[!-/:-@[-`{-~]/.test(next)) {
      this.nodes.push(next);
      this.at += 2;
    } else this.literal(1);
  }

  newline() {
    const last = this.nodes.at(-1);
    if (typeof last === "string" && last.endsWith("  ")) {
      this.nodes.push({ tag: "br", children: [] });
      this.at += 1;
    } else this.literal(1);
  }

  codeSpan() {
    const length = this.run("`");
    const start = this.at + length;
    const end = this.unclosed.has(length) ? -1 : closingTicks(this.text, start, length);
    if (end < 0) {
      this.unclosed.add(length);
      return this.literal(length);
    }
    let body = this.text.slice(start, end).replaceAll("\n", " ");
    if (body.startsWith(" ") && body.endsWith(" ") && body.trim()) body = body.slice(1, -1);
    this.nodes.push({ tag: "code", children: broken(body) });
    this.at = end + length;
  }

  run(char) {
    let end = this.at;
    while (this.text[end] === char) end += 1;
    return end - this.at;
  }

  entity() {
    ENTITY.lastIndex = this.at;
    const found = ENTITY.exec(this.text);
    if (!found) return this.literal(1);
    const [whole, decimal, hex, name] = found;
    const number = decimal ? Number(decimal) : Number.parseInt(hex ?? "0", 16);
    const valid = number > 0 && number <= 0x10ffff;
    this.nodes.push(name ? ENTITIES[name.toLowerCase()] : clean(valid ? String.fromCodePoint(number) : "\ufffd"));
    this.at += whole.length;
  }

  // Links

  autolink() {
    const end = this.text.indexOf(">", this.at);
    const address = end > 0 && end - this.at < 2000 ? this.text.slice(this.at + 1, end) : "";
    const href = safeLink(address);
    if (!href) return this.literal(1);
    this.nodes.push({ tag: "a", href, children: [address] });
    this.at = end + 1;
  }

  bareLink(scheme) {
    const before = this.text[this.at - 1];
    const rest = /^[^\s<>"`|]*/.exec(this.text.slice(this.at, this.at + 2000))[0];
    const address = withoutTrailing(rest);
    const href = before && /\w/.test(before) ? null : safeLink(address);
    if (!href || this.brackets.some((bracket) => !bracket.image)) return this.literal(scheme.length);
    this.nodes.push({ tag: "a", href, children: [address] });
    this.at += address.length;
  }

  open(length, image) {
    if (this.brackets.length === MAX_OPENERS) this.brackets.shift();
    this.brackets.push({ index: this.nodes.length, image, from: this.openers.length });
    this.literal(length);
  }

  closeBracket() {
    const bracket = this.brackets.pop();
    const target = bracket && destination(this.text, this.at + 1);
    if (!target) return this.literal(1);
    const inside = merged(this.nodes.splice(bracket.index).slice(1));
    this.openers.length = Math.min(this.openers.length, bracket.from);
    this.at = target.end;
    const href = safeLink(target.address);
    if (bracket.image) this.nodes.push({ tag: "img", href, alt: plainText(inside), children: [] });
    else if (href) this.nodes.push({ tag: "a", href, children: inside });
    else this.nodes.push(...inside);
    if (!bracket.image) this.brackets = this.brackets.filter((open) => open.image);
  }

  // Emphasis: runs of at most three marks; a closing run takes the nearest opener of its length.

  emphasis(char) {
    const length = this.run(char);
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[this.at + length] ?? " ";
    const mark = char.repeat(length);
    if (length > 3 || (char === "~" && length !== 2)) return this.literal(length);
    const left = !/\s/.test(after) && (!PUNCTUATION.test(after) || /\s/.test(before) || PUNCTUATION.test(before));
    const right = !/\s/.test(before) && (!PUNCTUATION.test(before) || /\s/.test(after) || PUNCTUATION.test(after));
    const within = char === "_" && /\w/.test(before) && /\w/.test(after);
    this.at += length;
    if (right && !within && this.close(mark)) return;
    if (left && !within) this.pushOpener(mark);
    this.nodes.push(mark);
  }

  pushOpener(mark) {
    if (this.openers.length === MAX_OPENERS) this.openers.shift();
    this.openers.push({ mark, index: this.nodes.length });
  }

  close(mark) {
    const floor = this.brackets.at(-1)?.from ?? 0;
    for (let at = this.openers.length - 1; at >= floor; at -= 1) {
      if (this.openers[at].mark !== mark) continue;
      const { index } = this.openers[at];
      this.openers.length = at;
      const inside = merged(this.nodes.splice(index).slice(1));
      if (!inside.length) {
        this.nodes.push(mark);
        return false;
      }
      this.nodes.push(emphasised(mark, inside));
      return true;
    }
    return false;
  }
}

function emphasised(mark, children) {
  if (mark[0] === "~") return { tag: "del", children };
  if (mark.length === 1) return { tag: "em", children };
  const strong = { tag: "strong", children };
  return mark.length === 2 ? strong : { tag: "em", children: [strong] };
}

function closingTicks(text, start, length) {
  let at = text.indexOf("`", start);
  while (at >= 0) {
    let end = at;
    while (text[end] === "`") end += 1;
    if (end - at === length) return at;
    at = text.indexOf("`", end);
  }
  return -1;
}

// "(address)" or "(address "title")" at a place in the text; the address may contain (pairs).
function destination(text, at) {
  if (text[at] !== "(") return null;
  const rest = text.slice(at, at + 2000);
  const found = /^\(\s{0,9}(?:<([^<>\n]*)>|((?:[^\s()]|\([^\s()]*\))*))(?:\s{1,9}(?:"[^"]*"|'[^']*'))?\s{0,9}\)/.exec(rest);
  return found && { address: found[1] ?? found[2], end: at + found[0].length };
}

function withoutTrailing(address) {
  let end = address.length;
  while (end) {
    const char = address[end - 1];
    const unpaired = char === ")" && !address.slice(0, end).includes("(");
    if (!unpaired && !"?!.,:;*_~'\\]".includes(char)) break;
    end -= 1;
  }
  return address.slice(0, end);
}

function merged(nodes) {
  const found = [];
  for (const node of nodes) {
    if (typeof node === "string" && typeof found.at(-1) === "string") found[found.length - 1] += node;
    else if (node !== "") found.push(node);
  }
  return found.flatMap((node) => (typeof node === "string" ? broken(node) : [node]));
}

/** Return the nodes of a plain text: a run of letters that no space divides becomes several lines. */
export function broken(text) {
  if (text.length <= MAX_RUN) return [text];
  const found = [];
  let from = 0;
  for (const { 0: run, index } of text.matchAll(/\S+/g)) {
    if (run.length <= MAX_RUN || found.length > MAX_NODES) continue;
    if (index > from) found.push(text.slice(from, index));
    for (from = index; from < index + run.length && found.length <= MAX_NODES;) {
      const end = from + wholeUpTo(text.slice(from, index + run.length), MAX_RUN);
      found.push({ tag: "run", children: [text.slice(from, end)] });
      from = end;
    }
  }
  if (from < text.length) found.push(text.slice(from));
  return found;
}

/** Return the largest place up to a limit that does not divide a character. */
export function wholeUpTo(text, limit) {
  const within = /[\udc00-\udfff\p{M}\u200d]/u;
  let end = Math.min(limit, text.length);
  for (let least = end - 20; end > least && end < text.length && within.test(text[end]); end -= 1);
  return end;
}

/** Return the text of nodes without their form. */
export function plainText(nodes) {
  return nodes.map((node) => (typeof node === "string" ? node : node.alt ?? plainText(node.children))).join("");
}
