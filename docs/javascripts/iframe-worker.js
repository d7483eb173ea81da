// Browsers start no worker for a page that was opened from the file system. The search needs one, so
// there it runs in a hidden frame of the page instead. Elsewhere nothing is changed.
if (location.protocol === "file:") {
  // Both sides change what they send and receive, so each needs a copy of its own.
  const copied = (data) => new MessageEvent("message", { data: structuredClone(data) });

  window.Worker = class {
    onmessage = null;
    onerror = null;
    #frame = document.createElement("iframe");
    #waiting = []; // messages for the script, until it is loaded

    constructor(url) {
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.onmessage?.(copied(data));
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href);
      script.onload = () => {
        const waiting = this.#waiting;
        this.#waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      script.onerror = () => this.onerror?.(new ErrorEvent("error", { cancelable: true }));
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      // Later, as a worker would: the caller may still be setting its handlers.
      else setTimeout(() => this.#frame.contentWindow?.dispatchEvent(copied(data)));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
