// A row of the fault table, played by this client in Node.js or in a browser.

import { CAPClient } from "../coreason.js";
import { readAll, REQUEST } from "./support.js";

const KEY = "sk_secret";
export const OPTIONS = {
  key: KEY, timeout: 4000, maxRetries: 3, deadline: 20_000,
  backoff: { first: 10, longest: 20 }, // the real one is shown elsewhere and takes time
};

/**
 * Plays a row and returns what was seen and what was expected, for the comparison of the runner.
 * `server.run(fault, options)` begins a run, `server.report(run)` says what its client did.
 */
export async function playRow(row, server) {
  const run = await server.run(row.fault, row.options);
  const deadline = row.fault === "hung_with_heartbeats" ? 700 : OPTIONS.deadline;
  const stream = new CAPClient(run.url, { ...OPTIONS, deadline }).assist(REQUEST);
  const { items, error } = await readAll(stream);
  const report = await server.report(run);
  const expected = expectedOf(row, run);
  const seen = observe(stream, items, error, report);
  for (const name of Object.keys(seen)) if (!Object.hasOwn(expected, name)) delete seen[name];
  return { run, seen, expected };
}

/** Returns the row as it is in a browser, which does some things by itself. */
export const inBrowser = ({ browser, ...row }) => ({ ...row, ...browser });

const endsConnection = ({ p }) => ["TRANSIENT", "FATAL"].includes(p.severity);

function expectedOf({ error = null, delivered, reconnects, requests, probes = 0 }, run) {
  const seqs = run.packets.filter((packet) => !endsConnection(packet)).map(({ seq }) => seq);
  return {
    error,
    seqs: seqs.slice(0, delivered),
    complete: !error,
    status: error ? "failed" : "done",
    positionFits: true,
    keyLeaks: false,
    probes,
    wrongRequests: [],
    serverErrors: [],
    ...(reconnects !== undefined && { reconnects }),
    ...(requests !== undefined && { requests }),
  };
}

function observe(stream, items, error, { requests, errors }) {
  // A browser asks with OPTIONS whether it may send a request to another origin.
  const sent = requests.filter(({ method }) => !["GET", "OPTIONS"].includes(method));
  const probes = requests.filter(({ method }) => method === "GET");
  return {
    error: error && error.name,
    seqs: items.map(({ seq }) => seq),
    complete: stream.complete,
    status: stream.status,
    positionFits: !error || fits(error.position, items),
    keyLeaks: `${error?.stack}`.includes(KEY),
    probes: probes.length,
    wrongRequests: [
      ...sent.filter((request) => !isRight(request, requests[0].origin)),
      ...probes.filter(({ headers }) => "authorization" in headers || "x-request-id" in headers),
    ],
    serverErrors: errors,
    reconnects: stream.reconnects,
    requests: sent.length,
  };
}

const fits = (position, items) => items.length === 0
  ? position === null
  : position.streamId === items[0].stream_id && position.seq >= items.at(-1).seq;

/** Every attempt sends the same request; no other origin gets the key. */
const isRight = ({ method, body, headers, origin }, home) =>
  method === "POST" &&
  body === JSON.stringify(REQUEST) &&
  headers["x-request-id"] === REQUEST.request_id &&
  headers["cache-control"] === "no-cache" &&
  "authorization" in headers === (origin === home);
