// A request as a command and as a program, and a conversation as JSON. No DOM, and never a key.

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
// JSON's strings are Python's too, once what JSON leaves unescaped but Python's lines do not allow is.
const python = (text) => JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Return a curl command for a request. */
export function asCurl({ protocol, url, question, request, needsKey }) {
  const key = needsKey ? ` \\\n  -H "Authorization: Bearer $COREASON_API_KEY"` : "";
  if (protocol === "a2a") {
    const message = { messageId: request.request_id, role: "ROLE_USER", parts: [{ text: question }] };
    const body = { jsonrpc: "2.0", id: 1, method: "SendStreamingMessage", params: { message } };
    return `curl -N ${quoted(url)} \\\n  -H 'Content-Type: application/json' \\\n  -H 'A2A-Version: 1.0'${key} \\\n  -d ${quoted(JSON.stringify(body))}`;
  }
  return `curl -N ${quoted(`${url}/assist`)} \\\n  -H 'Content-Type: application/json'${key} \\\n  -d ${quoted(JSON.stringify(request))}`;
}

/** Return a Python program for a question. */
export function asPython({ protocol, url, question, needsKey }) {
  if (protocol === "a2a") {
    return `from coreason_client.a2a import A2AClient

with A2AClient.connect(${python(url)}) as agent:
    for event in agent.send_message_stream(${python(question)}):
        print(event.text, end="", flush=True)
`;
  }
  const key = needsKey ? `, api_key=os.environ["COREASON_API_KEY"]` : "";
  return `${needsKey ? "import os\n\n" : ""}from coreason_client import CAPClient

with CAPClient(${python(url)}${key}) as client:
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
