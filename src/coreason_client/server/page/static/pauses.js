// Long work in pieces: what to wait for between two of them.

const { port1, port2 } = new MessageChannel();
const paused = [];
port1.onmessage = () => paused.shift()();

/** Let the browser do what else waits. Unlike a timer, it is as quick in a tab that nobody sees. */
function pause() {
  return new Promise((resolve) => {
    paused.push(resolve);
    port2.postMessage(null);
  });
}

/** Wait until the browser has drawn; a tab that nobody sees does not draw. */
export function nextFrame() {
  if (document.hidden) return pause();
  return new Promise((resolve) => {
    requestAnimationFrame(resolve);
    setTimeout(resolve, 200); // it may be hidden meanwhile
  });
}
