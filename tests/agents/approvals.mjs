// The client of AG-UI for npm: runs until the agent asks, or answers its question, and prints what it got.
// Arguments: the folder of the package, the URL of an agent, its key, and JSON with the thread, its
// messages and, for an answer, the entry of `resume`.
import { createRequire } from "node:module";

const [folder, url, key, asked] = process.argv.slice(2);
const { HttpAgent } = createRequire(`${folder}/`)("@ag-ui/client");
const { threadId, messages: initialMessages, resume } = JSON.parse(asked);

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
console.log(JSON.stringify({ ...found, messages: agent.messages, pending: agent.pendingInterrupts }));
process.exit(0);
