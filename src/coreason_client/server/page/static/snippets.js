// A request as a command and as a program, and a conversation as JSON. No DOM, and never a key.

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
// JSON's strings are Python's too, once what JSON leaves unescaped but Python's lines do not allow is.
const python = (text) => JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

// Where `coreason inspect` finds the credential too.
const keyVariable = ({ protocol }) => (protocol === "a2a" ? "COREASON_A2A_TOKEN" : "COREASON_API_KEY");

/** Return a curl command for a request. */
export function asCurl(target) {
  const { address, headers, body } = target.protocol === "a2a" ? a2aCall(target) : capCall(target);
  const all = ["'Content-Type: application/json'", ...headers];
  const lines = [`curl -N ${quoted(address)}`, ...all.map((header) => `-H ${header}`)];
  if (target.needsKey) lines.push(keyOption(target));
  lines.push(`-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

// Only the variable is in double quotes: the names around it come from a card.
function keyOption(target) {
  const [option, value] = target.curlOption;
  const [before, after] = value.split("{key}").map((part) => part && quoted(part));
  return `${option} ${before}"$${keyVariable(target)}"${after}`;
}

function capCall({ url, request }) {
  return { address: `${url}/assist`, headers: [], body: request };
}

// Over JSON-RPC, in the version of the first interface of the card that has it.
function a2aCall({ url, card, question, request }) {
  const found = card?.supportedInterfaces?.find?.((each) => each?.protocolBinding === "JSONRPC");
  const isOld = String(found?.protocolVersion ?? "1").startsWith("0.");
  const messageId = request.request_id;
  const message = isOld
    ? { kind: "message", messageId, role: "user", parts: [{ kind: "text", text: question }] }
    : { messageId, role: "ROLE_USER", parts: [{ text: question }] };
  const method = isOld ? "message/stream" : "SendStreamingMessage";
  return {
    address: found?.url ?? url,
    headers: isOld ? [] : ["'A2A-Version: 1.0'"],
    body: { jsonrpc: "2.0", id: 1, method, params: { message } },
  };
}

/** Return a Python program for a question. */
export function asPython(target) {
  const { protocol, url, question, needsKey } = target;
  const imports = needsKey ? "import os\n\n" : "";
  const key = needsKey ? `os.environ["${keyVariable(target)}"]` : null;
  if (protocol === "a2a") {
    return `${imports}from coreason_client.a2a import A2AClient

with A2AClient.connect(${python(url)}${key ? `, auth=${key}` : ""}) as agent:
    for event in agent.send_message_stream(${python(question)}):
        print(event.text, end="", flush=True)
`;
  }
  // The client requires a key; a server without keys accepts any.
  return `${imports}from coreason_client import CAPClient

with CAPClient(${python(url)}, api_key=${key ?? '"any-key"'}) as client:
    for text in client.chat(${python(question)}):
        print(text, end="", flush=True)
`;
}

/** Return the conversation with all packets and everything that happened on the wire. */
export function asExport(config, turns, now) {
  return {
    exported_at: now.toISOString(),
    agent: { agent_id: config.agent_id, version: config.version, protocol: config.protocol, target: config.target },
    turns: turns.map(({ question, request, streamId, status, answer, trace }) => ({
      question,
      request: request ?? null,
      stream_id: streamId,
      status,
      text: answer.text,
      packets: answer.packets,
      figures: trace.figures,
      connections: trace.bands,
      marks: trace.marks.map(({ packet, ...mark }) => (packet ? { ...mark, seq: packet.seq } : mark)),
    })),
  };
}
