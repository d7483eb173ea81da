// Starts the fault server of the Python package: `python -m coreason_client.testing.faults`.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { ROOT } from "./files.js";

/** Starts the server; PYTHON names the interpreter. */
export async function startFaultServer() {
  const python = process.env.PYTHON ?? `${ROOT}.venv/bin/python`;
  const child = spawn(python, ["-m", "coreason_client.testing.faults"], {
    cwd: ROOT, stdio: ["pipe", "pipe", "inherit"],
  });
  const [url] = await Promise.race([
    once(createInterface(child.stdout), "line"),
    once(child, "exit").then(() => {
      throw new Error(`${python} -m coreason_client.testing.faults ended; PYTHON names the interpreter to use`);
    }),
  ]);
  return {
    /** Registers a run of a fault. */
    run: (fault, options = {}) => ask(`${url}/runs`, { fault, ...options }),
    /** Returns what the client of a run did so far. */
    report: ({ id }) => ask(`${url}/runs/${id}`),
    /** Returns true when the client has closed all connections of a run. */
    allClosed: async ({ id }) => (await ask(`${url}/runs/${id}?closed`)).closed,
    async stop() {
      const ended = once(child, "exit");
      child.stdin.end();
      const [code] = await ended;
      if (code !== 0) throw new Error("the fault server failed; see its output above");
    },
  };
}

async function ask(url, body) {
  const init = body && { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(url, init);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return response.json();
}
