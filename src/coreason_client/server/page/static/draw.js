// Draws the tree of `markdown.js` as DOM nodes. Text only ever becomes text nodes.

import { clean } from "./clean.js";
import { broken } from "./markdown.js";

const TAGS = new Set([
  "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol",
  "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
]);

/** Return an element with a class and children, which are nodes or texts. */
export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Return a link that tells the other page nothing about this one. */
export function link(href, ...children) {
  const made = element("a", "", ...children);
  made.href = href;
  made.rel = "noopener noreferrer";
  made.target = "_blank";
  return made;
}

/** Return the nodes of a plain text of any length and with any letters. */
export function plain(text) {
  return broken(text).map(draw);
}

/** Make an element show a tree; what has not changed keeps its nodes. */
export function patch(parent, nodes) {
  nodes.forEach((node, index) => {
    const old = parent.childNodes[index];
    if (!old) parent.append(draw(node));
    else if (!update(old, node)) old.replaceWith(draw(node));
  });
  while (parent.childNodes.length > nodes.length) parent.lastChild.remove();
}

function update(old, node) {
  if (typeof node === "string") {
    if (old.nodeType !== Node.TEXT_NODE) return false;
    if (node.length > old.length && node.startsWith(old.data)) old.appendData(node.slice(old.length));
    else if (old.data !== node) old.data = node;
    return true;
  }
  if (old.treeKey === undefined || old.treeKey !== keyOf(node)) return false;
  patch(old.treeBody ?? old, node.children);
  return true;
}

// Two nodes with the same key differ only in their children.
const keyOf = (node) =>
  [node.tag, node.level, node.href, node.start, node.align, node.language, node.checked, node.alt].join("\n");

function draw(node) {
  if (typeof node === "string") return document.createTextNode(node);
  const made = node.tag === "img" ? drawImage(node) : drawElement(node);
  made.treeKey = keyOf(node);
  return made;
}

function drawElement(node) {
  if (node.level) return filled(element(`h${node.level}`, `md-${node.tag}`), node);
  if (!TAGS.has(node.tag)) return filled(element("span", node.tag === "run" ? "run" : ""), node);
  if (node.tag === "a") return filled(link(node.href), node);
  if (node.tag === "table" || node.tag === "pre") return drawWide(node);
  const made = filled(element(node.tag), node);
  if (node.start !== undefined) made.start = node.start;
  if (node.align) made.className = `align-${node.align}`;
  if (node.checked !== undefined) made.className = node.checked ? "task done" : "task";
  return made;
}

function filled(made, node) {
  patch(made, node.children);
  return made;
}

// Wide content scrolls in itself, also with the keyboard, so that the page does not.
function drawWide(node) {
  const inner = filled(element(node.tag), node);
  const frame = element("div", `wide wide-${node.tag}`, inner);
  frame.tabIndex = 0;
  frame.setAttribute("role", "region");
  frame.setAttribute("aria-label", node.tag === "table" ? "Table" : `Code ${clean(node.language ?? "")}`.trim());
  if (node.language) frame.dataset.language = node.language.slice(0, 20);
  frame.treeBody = inner;
  return frame;
}

// An image of the text could report who reads it, so it is a link.
function drawImage(node) {
  const text = node.alt || "image";
  return node.href ? link(node.href, `🖼 ${text}`) : element("span", "", text);
}

// Long work in pieces: what to wait for between two of them.

const { port1, port2 } = new MessageChannel();
const paused = [];
port1.onmessage = () => paused.shift()();

/** Let the browser do what else waits. Unlike a timer, it is quick in a hidden tab too. */
function pause() {
  return new Promise((resolve) => {
    paused.push(resolve);
    port2.postMessage(null);
  });
}

/** Wait until the browser has drawn; a hidden tab does not draw. */
export function nextFrame() {
  if (document.hidden) return pause();
  return new Promise((resolve) => {
    requestAnimationFrame(resolve);
    setTimeout(resolve, 200); // it may be hidden meanwhile
  });
}
