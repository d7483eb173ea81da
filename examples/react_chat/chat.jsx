import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, isToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

// The address has the id of the chat: a reload and a second tab show the same chat.
if (!location.hash) history.replaceState(null, "", `#${crypto.randomUUID()}`);
addEventListener("hashchange", () => location.reload());
const id = location.hash.slice(1);
const api = "/agent/api/chat";

// A page keeps its messages itself, and whether it waits for the end of an answer.
const save = (chat) => localStorage.setItem(id, JSON.stringify(chat));
const load = () => JSON.parse(localStorage.getItem(id)) ?? { messages: [], isWaiting: false };
const saved = load();

const transport = new DefaultChatTransport({
  api,
  // The server sends these chunks only to a page that names them.
  body: { capabilities: ["reset-step", "tool-approval-request", "tool-approval-response"] },
  // Reads the running answer; `ended` asks for one that has ended in the meantime too.
  prepareReconnectToStreamRequest: () => ({ api: `${api}/${id}/stream?ended=${load().isWaiting}` }),
});

function Chat() {
  const [input, setInput] = useState("");
  const { messages, status, error, sendMessage, regenerate, stop, resumeStream, addToolApprovalResponse } = useChat({
    id,
    transport,
    resume: true,
    messages: saved.messages,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onFinish: ({ messages, isError }) => save({ messages, isWaiting: isError }),
  });
  const isBusy = status === "submitted" || status === "streaming";
  const isLost = error instanceof TypeError; // that is what a browser calls a lost connection

  useEffect(() => {
    if (status === "submitted") save({ messages, isWaiting: true });
  }, [status]);

  useEffect(() => {
    if (!isLost) return;
    const timer = setTimeout(resumeStream, 1000);
    return () => clearTimeout(timer);
  }, [error]);

  useEffect(() => {
    scrollTo(0, document.body.scrollHeight);
  }, [messages.length, status]);

  function send(event) {
    event.preventDefault();
    if (!input.trim() || isBusy) return;
    sendMessage({ text: input });
    setInput("");
  }

  function stopAgent() {
    stop(); // the page stops reading
    fetch(`${api}/${id}/stream`, { method: "DELETE" }); // the agent stops writing
  }

  return <>
    <header><h1>Trips</h1><a href="./">New chat</a></header>
    <section role="log" aria-label="Messages" aria-busy={isBusy}>
      {messages.map((message) => <article key={message.id} className={message.role}>
        {message.parts.map((part, index) => <Part key={index} part={part} answer={addToolApprovalResponse} />)}
      </article>)}
      {error && <p role="alert">{isLost ? "Connection lost, trying again." : error.message}</p>}
      {isBusy && <button onClick={stopAgent}>Stop</button>}
      {!isBusy && messages.length > 0 && <button onClick={() => regenerate()}>Regenerate</button>}
    </section>
    <form onSubmit={send}>
      <input aria-label="Message" placeholder="Plan a trip to Kyoto" value={input} onChange={(event) => setInput(event.target.value)} />
      <button disabled={isBusy}>Send</button>
    </form>
  </>;
}

function Part({ part, answer }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (part.type === "reasoning") return <details><summary>Thoughts</summary>{part.text}</details>;
  if (part.type === "source-url") return <p>Source: <a href={part.url}>{part.title}</a></p>;
  if (part.type === "data-question") return <p>Please answer:</p>; // the question is the text after it
  if (!isToolUIPart(part)) return null;
  const { toolName, state, approval, input, output, errorText } = part;
  return <details open={state === "approval-requested"}>
    <summary>{toolName}: {state}</summary>
    <pre>{JSON.stringify(input)} {JSON.stringify(output ?? errorText)}</pre>
    {state === "approval-requested" && <>
      <button onClick={() => answer({ id: approval.id, approved: true })}>Allow</button>
      <button onClick={() => answer({ id: approval.id, approved: false })}>Deny</button>
    </>}
  </details>;
}

createRoot(document.getElementById("chat")).render(<Chat />);
