// A second tab: it copies the storage of the first one, and asks it for the key, which is only in
// memory. The first tab answers only windows that it has opened itself.

const opened = new Set();

/** Open a tab that reads a stream; return false if the browser does not allow it. */
export function openTab(streamId) {
  const url = new URL(location.pathname, location.href);
  url.hash = new URLSearchParams({ stream: streamId });
  const tab = window.open(url);
  if (tab) opened.add(tab);
  return Boolean(tab);
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
