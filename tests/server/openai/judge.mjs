// Calls everything that the npm package of OpenAI has for this API, and prints what it got as JSON.
import { createRequire } from "node:module";

const [folder, baseURL, apiKey, model, question] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { OpenAI } = require("openai");
const client = new OpenAI({ baseURL, apiKey, timeout: 10_000, maxRetries: 0 });

const collect = async (stream) => {
  const found = [];
  for await (const one of stream) found.push(one);
  return found;
};
const refused = async (call) => {
  try {
    await call();
  } catch (error) {
    return [error.constructor.name, error.status, error.code];
  }
  return ["no error"];
};
const spoken = (messages) => ({
  content: messages.map((one) => one.content ?? "").join(""),
  reasoning: messages.map((one) => one.reasoning_content ?? "").join(""),
  annotations: messages.flatMap((one) => one.annotations ?? []),
});
const ofChunks = (chunks) => {
  const choices = chunks.flatMap((one) => one.choices);
  return { ...spoken(choices.map((one) => one.delta)), finish_reason: choices.at(-1).finish_reason };
};

const listed = await collect(client.models.list());
const found = await client.models.retrieve(model);
const messages = [{ role: "user", content: question }];
const whole = await client.chat.completions.create({ model, messages });
const plain = await collect(await client.chat.completions.create({ model, messages, stream: true }));
const counted = await collect(
  await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } }),
);
const last = counted.pop();

const helped = (await client.chat.completions.stream({ model, messages }).finalChatCompletion()).choices[0];

const made = await client.responses.create({ model, input: question });
const read = await client.responses.retrieve(made.id);
const items = await collect(client.responses.inputItems.list(made.id));
const helper = await client.responses.stream({ model, input: question }).finalResponse();

const events = await collect(await client.responses.create({ model, input: question, stream: true }));
const name = events[0].response.id;
const wrong = [];
const filteredWrong = [];
for (let after = -1; after < events.length; after += 1) {
  const given = after >= 0 ? { starting_after: after } : {};
  const rest = await collect(await client.responses.retrieve(name, { stream: true, ...given }));
  if (JSON.stringify(rest) !== JSON.stringify(events.slice(after + 1))) wrong.push([after, rest]);
}
// It reads from the start and leaves events out.
for (let after = -1; after < events.length; after += 7) {
  const given = after >= 0 ? { starting_after: after } : {};
  const filtered = await collect(client.responses.stream({ response_id: name, ...given }));
  const numbers = filtered.map((one) => one.sequence_number);
  if (numbers.join() !== events.slice(after + 1).map((one) => one.sequence_number).join()) {
    filteredWrong.push([after, numbers]);
  }
}

const started = await client.responses.create({ model, input: "Wait", background: true });
let waiting = started;
while (waiting.output_text !== "Working.") {
  await new Promise((resolve) => setTimeout(resolve, 10));
  waiting = await client.responses.retrieve(started.id);
}
const cancelled = await client.responses.cancel(started.id);
const lastEvent = (await collect(await client.responses.retrieve(started.id, { stream: true }))).at(-1);

const short = await client.responses.create({ model, input: "Hello" });
await client.responses.delete(short.id);
const again = { model, input: "Hi", previous_response_id: short.id };

console.log(
  JSON.stringify({
    models: listed.map((one) => one.id),
    model: found.id,
    "unknown model": await refused(() => client.models.retrieve("unknown")),
    chat: { ...spoken([whole.choices[0].message]), finish_reason: whole.choices[0].finish_reason },
    "chat usage": whole.usage,
    chunks: ofChunks(plain),
    "chunks have usage": plain.some((one) => "usage" in one),
    "counted chunks": ofChunks(counted),
    "usage before the last chunk": counted.map((one) => one.usage).filter((usage) => usage),
    "last chunk": [last.choices, last.usage],
    "chat helper": { ...spoken([helped.message]), finish_reason: helped.finish_reason },
    "ids of chunks": new Set([...counted, last].map((one) => one.id)).size,
    response: { ...made, output_text: undefined },
    text: made.output_text,
    read: JSON.stringify(read) === JSON.stringify(made),
    "input items": items.map((one) => one.content[0].text),
    helper: helper.output_text,
    events,
    wrong,
    "filtered wrong": filteredWrong,
    background: [started.status, waiting.status, waiting.output_text],
    cancelled: [cancelled.status, cancelled.output[0].content[0].text], // it has no output_text
    "last event of a cancelled one": [lastEvent.type, lastEvent.response.status],
    "cancelled again": (await client.responses.cancel(started.id)).status,
    deleted: null,
    gone: [
      await refused(() => client.responses.retrieve(short.id)),
      await refused(() => client.responses.retrieve(short.id, { stream: true })),
      await refused(() => client.responses.cancel(short.id)),
      await refused(() => client.responses.delete(short.id)),
      await refused(() => client.responses.inputItems.list(short.id)),
      await refused(() => client.responses.create(again)),
    ],
  }),
);
