// Short messages: read out by screen readers, and shown for a moment.

const ANNOUNCE_EVERY = 1500; // ms
const SHOWN_FOR = 4000; // ms

const $ = (id) => document.getElementById(id);

let announced = 0;
let announcement = null;

/** Have a text read out: only the last of several, and not more often than one can listen. */
export function announce(text) {
  const waiting = announcement !== null;
  announcement = text;
  if (waiting) return;
  setTimeout(() => {
    announced = performance.now();
    $("live").textContent = announcement;
    announcement = null;
  }, Math.max(announced + ANNOUNCE_EVERY - performance.now(), 100));
}

let timer = 0;

/** Show a text for a moment, and have it read out. */
export function tell(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
  announce(text);
  clearTimeout(timer);
  timer = setTimeout(() => { $("toast").hidden = true; }, SHOWN_FOR);
}

/** Copy a text; `what` is its name. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    tell(`Copied ${what}.`);
  } catch {
    tell("The browser did not allow copying.");
  }
}
