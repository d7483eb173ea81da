// What a tab remembers over a reload: the conversation, the stream that is read, and the token of
// `coreason inspect`. A key is kept in memory, and here only if the user asks for it.

const MAX_TURNS = 20;
const MAX_TEXT = 50_000; // characters kept of an answer

/** Return a new id, also in a page without https. */
export const newId = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

export class Session {
  constructor(store, path) {
    this.store = store;
    this.name = `coreason:${path}`;
    const kept = this.read("conversation") ?? {};
    this.id = typeof kept.id === "string" ? kept.id : newId();
    this.turns = Array.isArray(kept.turns) ? kept.turns : []; // as in Turn.kept
    this.key = this.read("key");
    this.token = this.read("token");
  }

  read(part) {
    try {
      return JSON.parse(this.store.getItem(`${this.name}:${part}`));
    } catch {
      return null;
    }
  }

  write(part, value) {
    const name = `${this.name}:${part}`;
    try {
      if (value === null) this.store.removeItem(name);
      else this.store.setItem(name, JSON.stringify(value));
    } catch {
      // Storage may be full or forbidden: then a reload forgets.
    }
  }

  /** Keep the turns. */
  save(turns) {
    this.turns = turns.slice(-MAX_TURNS).map((turn) => ({ ...turn, text: turn.text.slice(0, MAX_TEXT) }));
    this.write("conversation", { id: this.id, turns: this.turns });
  }

  startOver(history) {
    history.replaceState(null, "", location.pathname + location.search);
    this.id = newId();
    this.save([]);
  }

  /** Use a key for this page; `keep` until the tab is closed. */
  setKey(key, keep) {
    this.key = key;
    this.write("key", keep ? key : null);
  }

  /** Take token and stream from the address, in which a conversation stays; return the stream's id. */
  takeFragment(location, history) {
    const fragment = new URLSearchParams(location.hash.slice(1));
    const token = fragment.get("token");
    if (token) {
      this.token = token;
      this.write("token", token);
    }
    const stream = fragment.get("stream");
    const id = fragment.get("conversation");
    this.shared = id;
    if (id && id !== this.id) {
      this.id = id;
      this.turns = [];
    }
    fragment.delete("token");
    fragment.delete("stream");
    history.replaceState(null, "", location.pathname + location.search + (this.shared ? `#${fragment}` : ""));
    return stream;
  }
}

// A second tab copies the storage of the first one, and asks it for the key. The first tab answers
// only windows that it has opened.

const opened = new Set();

/** Open a tab that reads a stream, if the browser allows it; return it. */
export function openTab(streamId) {
  const url = new URL(location.pathname, location.href);
  url.hash = new URLSearchParams({ stream: streamId });
  const tab = window.open(url);
  if (tab) opened.add(tab);
  return tab;
}

/** Ask the tab that has opened this one for the key. */
export function askOpener() {
  window.opener?.postMessage({ coreason: "key?" }, location.origin);
}

/** Answer other tabs with `getKey`, and call `onKey` with what the opener answers. */
export function exchangeKeys(getKey, onKey) {
  addEventListener("message", ({ origin, source, data }) => {
    if (origin !== location.origin) return;
    if (data?.coreason === "key?" && opened.has(source)) {
      source.postMessage({ coreason: "key", key: getKey() }, location.origin);
    }
    if (data?.coreason === "key" && source === window.opener && typeof data.key === "string") onKey(data.key);
  });
}
