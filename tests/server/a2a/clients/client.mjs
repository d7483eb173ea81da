// The program for the client of @a2a-js/sdk: it calls an agent and prints what it got.
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";

const [folder, url, transport] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } = require("@a2a-js/sdk/client");
const { Role, TaskState } = require("@a2a-js/sdk");

const original = globalThis.fetch;
const fetchImpl = (input, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("Authorization", "Bearer ann-key");
  return original(input, { ...init, headers });
};
const factories = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory };
const factory = new ClientFactory({ transports: [new factories[transport]({ fetchImpl })] });
const client = await factory.createFromUrl(url);

const request = (behaviour, ids = {}) => ({
  tenant: "",
  message: {
    messageId: `${behaviour}-${randomUUID()}`,
    contextId: "",
    taskId: "",
    role: Role.ROLE_USER,
    parts: [{ content: { $case: "text", value: "Hello." }, metadata: undefined, filename: "", mediaType: "" }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...ids,
  },
  configuration: undefined,
  metadata: undefined,
});
const collect = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
};
const state = (task) => TaskState[task.status.state];

const done = await client.sendMessage(request("tck-complete-task"));
const answer = await client.sendMessage(request("tck-message-response"));
const events = await collect(client.sendMessageStream(request("tck-stream-001")));
const asked = await client.sendMessage(request("tck-input-required"));
const more = await client.sendMessage(request("tck-complete-task", { taskId: asked.id, contextId: asked.contextId }));
const other = await client.sendMessage(request("tck-input-required"));
const read = await client.getTask({ tenant: "", id: done.id });
const cancelled = await client.cancelTask({ tenant: "", id: other.id });
let error = null;
try {
  await client.getTask({ tenant: "", id: "unknown" });
} catch (caught) {
  error = caught.constructor.name;
}
const text = (artifact) => artifact.parts[0].content.value;
const updates = events.filter((event) => event.payload.$case === "artifactUpdate");
console.log(
  JSON.stringify({
    sent: [state(done), text(done.artifacts[0])],
    message: answer.parts[0].content.value,
    streamed: [state(events.at(-1).payload.value), text(updates[0].payload.value.artifact)],
    asked: [state(asked), asked.status.message.parts[0].content.value],
    answered: [state(more), more.id === asked.id],
    read: read.id === done.id,
    cancelled: state(cancelled),
    error,
  }),
);
