// A page that uses the AI SDK, without a browser: it does what the lines on stdin say, each of which
// is a JSON object with a number, and answers each with a line that has the same number.
//
// Argument: the folder with the packages.
import { createInterface } from "node:readline";
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";

const packages = `${process.argv[2]}/node_modules`;
const load = (file) => import(pathToFileURL(`${packages}/${file}`));
const sdk = await load("ai/dist/index.mjs").catch(() => load("ai/dist/index.js"));
const { AbstractChat, DefaultChatTransport, readUIMessageStream, uiMessageChunkSchema } = sdk;
const workflow = "@ai-sdk/workflow/dist/client.js";
const { WorkflowChatTransport } = existsSync(`${packages}/${workflow}`) ? await load(workflow) : {};
console.error = () => {}; // a transport tells every lost connection there

class State {
  status = "ready";
  error = undefined;
  #messages;
  #waiting = [];

  constructor(messages) {
    this.#messages = messages;
  }
  get messages() {
    return this.#messages;
  }
  set messages(messages) {
    this.#messages = messages;
    this.look();
  }
  pushMessage = (message) => {
    this.messages = [...this.#messages, structuredClone(message)];
  };
  popMessage = () => {
    this.messages = this.#messages.slice(0, -1);
  };
  replaceMessage = (index, message) => {
    this.messages = this.#messages.with(index, structuredClone(message));
  };
  snapshot = (thing) => structuredClone(thing);

  /** Resolves when something is true, which is looked at after every change. */
  until(isTrue) {
    return new Promise((resolve) => {
      this.#waiting.push([isTrue, resolve]);
      this.look();
    });
  }
  look() {
    const waiting = this.#waiting;
    this.#waiting = waiting.filter(([isTrue]) => !isTrue());
    for (const one of waiting) if (!this.#waiting.includes(one)) one[1]();
  }
}

class Chat extends AbstractChat {
  constructor(options) {
    super(options);
  }
}

const chats = new Map();

const open = ({ chat, id, api, key, body, messages = [], network, transport = {}, ids, only, run, when }) => {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const told = { requests: [], data: [], finished: [], calls: [], runs: [] };
  const seen = async (url, init) => {
    const name = new URL(url);
    const request = [init?.method ?? "GET", name.pathname + name.search];
    told.requests.push(request);
    const response = await fetch(url, init);
    request.push(response.status);
    told.runs.push(response.headers.get("x-workflow-run-id"));
    state.look();
    if (!network || response.body === null) return response;
    // A browser names the loss of a connection in this way.
    const reader = response.body.getReader();
    const pull = async (controller) => {
      try {
        const { done, value } = await reader.read();
        done ? controller.close() : controller.enqueue(value);
      } catch {
        controller.error(new TypeError("network error"));
      }
    };
    return new Response(new ReadableStream({ pull }), response);
  };
  const state = new State(messages);
  const kinds = {
    default: () =>
      new DefaultChatTransport({
        api,
        headers,
        body,
        fetch: seen,
        ...(only && {
          prepareSendMessagesRequest: ({ id, messages, body, trigger, messageId }) => ({
            body: { ...body, id, trigger, messageId, message: messages.at(-1) },
          }),
        }),
      }),
    run: () =>
      new DefaultChatTransport({
        api,
        headers,
        fetch: seen,
        prepareReconnectToStreamRequest: () => ({ api: `${api}/${run}/stream`, headers }),
      }),
    ended: () =>
      new DefaultChatTransport({
        api,
        headers,
        body,
        fetch: seen,
        prepareReconnectToStreamRequest: ({ api, id }) => ({ api: `${api}/${id}/stream?ended=true`, headers }),
      }),
    workflow: () =>
      new WorkflowChatTransport({
        api,
        fetch: seen,
        prepareSendMessagesRequest: ({ id, messages, trigger }) => ({
          headers,
          body: { ...body, messages, ...(ids && { id, trigger }) },
        }),
        prepareReconnectToStreamRequest: () => ({ headers }),
        ...transport.options,
      }),
  };
  const used = kinds[transport.kind ?? "default"]();
  if (transport.isReplay) used.resumeStreamIsReplay = true;
  const made = new Chat({
    id,
    state,
    transport: used,
    ...(when && { sendAutomaticallyWhen: sdk[when] }),
    onData: (part) => told.data.push(part),
    onToolCall: ({ toolCall }) => told.calls.push(toolCall),
    onFinish: ({ isAbort, isDisconnect, isError, finishReason }) =>
      told.finished.push({ isAbort, isDisconnect, isError, finishReason }),
  });
  chats.set(chat, { made, state, told });
};

const shown = ({ chat }) => {
  const { made, told } = chats.get(chat);
  return { status: made.status, error: made.error?.message ?? null, messages: made.messages, ...told };
};

const after = (act) => async (asked) => {
  await act(chats.get(asked.chat).made, asked);
  return shown(asked);
};

const check = async ({ bodies }) => {
  const { validate } = uiMessageChunkSchema();
  const found = [];
  for (const chunks of bodies) {
    const wrong = [];
    for (const chunk of chunks) if (!(await validate(chunk)).success) wrong.push(chunk);
    const stream = new ReadableStream({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(chunk);
        controller.close();
      },
    });
    let message = null;
    let error = null;
    const onError = (problem) => (error ??= problem.message);
    try {
      const read = readUIMessageStream({ stream, onError, terminateOnError: true });
      for await (const one of read) message = one;
    } catch (problem) {
      error ??= problem.message;
    }
    found.push({ wrong, message, error });
  }
  return found;
};

const acts = {
  open,
  shown,
  check,
  send: after((made, { message }) => made.sendMessage(message ?? undefined)),
  resume: after((made) => made.resumeStream()),
  regenerate: after((made, { messageId }) => made.regenerate(messageId ? { messageId } : undefined)),
  stop: after((made) => made.stop()),
  approve: after((made, { answer }) => made.addToolApprovalResponse(answer)),
  until: async (asked) => {
    const { state } = chats.get(asked.chat);
    await state.until(() => JSON.stringify(state.messages).includes(asked.text));
    return shown(asked);
  },
  answered: async (asked) => {
    const { state, told } = chats.get(asked.chat);
    await state.until(() => told.runs.length >= asked.count);
    return shown(asked);
  },
  close: ({ chat }) => void chats.delete(chat),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { number, act, ...asked } = JSON.parse(line);
  const answer = (told) => console.log(JSON.stringify({ number, ...told }));
  Promise.resolve()
    .then(() => acts[act](asked))
    .then(
      (result) => answer({ result: result ?? null }),
      (error) => answer({ failure: error.stack }),
    );
}
process.exit(0);
