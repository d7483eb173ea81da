// Runs agents with the client of AG-UI for npm, and prints what it made of the events as JSON.
// Arguments: the folder of the package, the URL of an agent, its key, and the URL of prepared answers.
import { createRequire } from "node:module";

const [folder, url, key, prepared, count] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { HttpAgent } = require("@ag-ui/client");

const warnings = [];
console.warn = (...words) => warnings.push(words.map(String).join(" "));
console.error = (...words) => {}; // it reports every error that it also raises
process.on("unhandledRejection", () => {}); // it raises one beside the error of a cut connection

const headers = { Authorization: `Bearer ${key}` };
const text = (content, id = "u1") => ({ id, role: "user", content });
const agentFor = (content, more = {}) => new HttpAgent({ url, headers, initialMessages: [text(content)], ...more });

// Runs an agent, and returns its messages, events and errors.
const run = async (agent, parameters = {}, onEvent = () => {}) => {
  const found = { events: [], custom: [] };
  const watch = {
    onEvent: ({ event }) => {
      found.events.push(event.type);
      found.last = event;
      return onEvent(event);
    },
    onCustomEvent: ({ event }) => {
      found.custom.push(event.name);
    },
    onRunFinishedEvent: (finished) => {
      found.outcome = finished.outcome;
      found.pendingToolCallIds = finished.pendingToolCallIds;
    },
  };
  try {
    await agent.runAgent(parameters, watch);
  } catch (error) {
    found.error = { message: String(error.message), status: error.status };
  }
  found.messages = agent.messages;
  found.pending = agent.pendingInterrupts;
  return found;
};

const printed = {};

printed.whole = await run(agentFor("Tell me everything.", { threadId: "t1" }), { runId: "r1" });
printed.again = await run(agentFor("Tell me everything.", { threadId: "t1" }), { runId: "r1" });
printed.failed = await run(agentFor("Fail"));
printed.refused = [
  await run(agentFor("x", { headers: {} })),
  await run(agentFor("Hello", { threadId: "t1" }), { runId: "r1" }),
  await run(agentFor("x", { threadId: "x".repeat(300) })),
  await run(agentFor("x", { url: `${url}/nothing` })),
].map((one) => one.error);

// A conversation of two turns.
const chat = agentFor("Hello");
await run(chat);
chat.addMessage(text("And then?", "u2"));
printed.turns = (await run(chat)).messages;

// A reload in the middle of an answer: a second client with the same run.
const question = "Wait after:9";
const ids = { threadId: "t2" };
const first = agentFor(question, ids);
let reloaded;
const reload = async () => {
  const second = agentFor(question, ids);
  reloaded = await run(second, { runId: "r2" }, async (event) => {
    if (event.type === "MESSAGES_SNAPSHOT") await run(agentFor(`Open:${question}`));
  });
};
let reloading;
printed.undisturbed = await run(first, { runId: "r2" }, (event) => {
  if (event.type === "CUSTOM") reloading ??= reload();
});
await reloading;
printed.reloaded = reloaded;

// A question about a call.
const asked = agentFor("Delete");
printed.asked = await run(asked);
asked.addMessage(text("Something else", "u2"));
printed.blocked = await run(asked);
const [interrupt] = printed.asked.pending;
const entry = { interruptId: interrupt.id, status: "resolved", payload: "Yes" };
printed.answered = await run(asked, { resume: [entry] });
const twice = agentFor("Delete", { threadId: asked.threadId });
printed.twice = (await run(twice, { resume: [entry] })).error;

// A tool of the page.
const page = agentFor("Click");
const tools = [{ name: "click", description: "Clicks", parameters: { type: "object" } }];
printed.called = await run(page, { tools });
const [callId] = printed.called.pendingToolCallIds;
page.addMessage({ id: "t", role: "tool", toolCallId: callId, content: "Clicked" });
printed.clicked = await run(page, { tools });

// Answers that were written before: with words that are taken back, and cut short.
printed.prepared = [];
for (let index = 0; index < Number(count); index += 1) {
  const initialMessages = [text("Hi"), { id: "a1", role: "assistant", content: "Hello" }];
  const agent = new HttpAgent({ url: `${prepared}/${index}`, initialMessages });
  printed.prepared.push(await run(agent));
}
printed.warnings = warnings;
console.log(JSON.stringify(printed));
process.exit(0);
