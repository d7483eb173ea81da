// What of an agent's text may be shown, and which addresses may become links. No DOM.

// Control characters other than newline and tab, and characters that override the text direction.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const LINK = /^(?:https?:\/\/|mailto:)[^\s<>]+$/i;

const DOCUMENT = /^(?:docs\/)?[\w-]+\.md(?:#[\w-]*)?$/;

/** Return a text without control characters; line ends become "\n". */
export function clean(text) {
  return String(text).replace(/\r\n?/g, "\n").replace(CONTROL, "");
}

/** Return the JSON of a value for people to read, with control characters escaped. */
export function readableJson(value) {
  const text = JSON.stringify(value, null, 2) ?? "undefined";
  return text.replace(/[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (char) =>
    `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

let documents = null; // the address below which the server has the documents of its agent

/** Make paths of documents links. */
export function linkDocuments(base) {
  documents = base;
}

/** Return the address of a link, or null if it must stay text: only http, https and mailto. */
export function safeLink(address) {
  if (documents && DOCUMENT.test(address)) return new URL(address, documents).href;
  if (typeof address !== "string" || !LINK.test(address) || clean(address) !== address) return null;
  try {
    return new URL(address).href;
  } catch {
    return null;
  }
}

/** Return the beginning of a text that is too long to be shown. */
export function shortened(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** Return a size in bytes for people to read. */
export function readableSize(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
