// The client of AG-UI for npm. Each line of stdin is a run: until the agent asks, or with an answer to
// its question. Each line of stdout is what the client got, or its error.
// The argument is the folder of the package. A run is JSON with the URL of an agent, its key, the
// thread, its messages and, for an answer, the entry of `resume`.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { HttpAgent } = createRequire(`${process.argv[2]}/`)("@ag-ui/client");

async function run({ url, key, threadId, messages: initialMessages, resume }) {
  const headers = { Authorization: `Bearer ${key}` };
  const agent = new HttpAgent({ url, headers, threadId, initialMessages });
  const found = { results: [] };
  await agent.runAgent(resume ? { resume: [resume] } : {}, {
    onRunFinishedEvent: ({ outcome }) => {
      found.outcome = outcome;
    },
    onToolCallResultEvent: ({ event }) => {
      found.results.push(event.content);
    },
  });
  return { ...found, messages: agent.messages, pending: agent.pendingInterrupts };
}

for await (const line of createInterface({ input: process.stdin })) {
  const found = await run(JSON.parse(line)).catch((error) => ({ error: String(error) }));
  console.log(JSON.stringify(found));
}
process.exit(0);
