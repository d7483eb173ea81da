// The page of an agent: connects the conversation, the timeline and the buttons with the client.

import { clean, linkDocuments } from "./clean.js";
import { CAPClient } from "./coreason.js";
import { element } from "./draw.js";
import { drawFigures, drawStory, examples, openInspector, showCard, showDetails } from "./inspector.js";
import { askOpener, exchangeKeys, newId, openTab, Session } from "./session.js";
import { asCurl, asExport, asPython } from "./snippets.js";
import { Timeline } from "./timeline.js";
import { Turn } from "./turn.js";

const MAX_TURNS = 30; // older ones are removed from the page
const REST = 3; // drawing may take a quarter of the time
const STATUS_TEXTS = {
  starting: "Starting", idle: "Ready", connecting: "Connecting", open: "Answering", waiting: "Reconnecting",
  done: "Complete", failed: "Failed", cancelled: "Stopped", left: "Stopped", "needs-key": "Needs a key",
  unreachable: "Not reachable",
};

const DOUBLE_CLICK = 500; // ms after sending in which a click does not stop

const GONE = [404, 410]; // the server no longer has a stream
const ANNOUNCE_EVERY = 1500; // ms
const SHOWN_FOR = 4000; // ms

const $ = (id) => document.getElementById(id);
const session = new Session(storage(), location.pathname);
const turns = [];
let config = null;
let client = null;
let current = null; // the turn that is read or was read last
let shown = null; // the turn whose timeline is shown
let begun = 0; // when it was asked
let retry = null; // what to do when the key or the server is there
let listening = false; // to what others ask

function storage() {
  try {
    return sessionStorage;
  } catch {
    return null; // forbidden by the settings of the browser: then a reload forgets
  }
}

// Status and messages

function setStatus(status) {
  document.body.dataset.status = status;
  $("status").dataset.status = status;
  $("status-text").textContent = STATUS_TEXTS[status] ?? status;
  const running = current?.running;
  $("send").disabled = $("stop").disabled = !config;
  $("send").replaceChildren(...(canSay() ? SEND_NOW : [running ? "Stop" : "Send"]));
  $("send").classList.toggle("primary", !running || canSay());
  $("stop").hidden = !canSay();
  $("question").placeholder = canSay() ? "Tell the agent something" : "Ask a question";
  for (const id of ["cut", "tab"]) $(id).disabled = !current?.streamId || (id === "cut" && !running);
  $("reload").disabled = !current?.streamId;
  for (const id of ["curl", "python"]) $(id).disabled = current?.question == null;
  $("export").disabled = !turns.length;
}

const SEND_NOW = [element("span", "long", "Send to the running answer"), element("span", "short", "Send now")];

/** Whether a message can be sent to the running answer. */
function canSay() {
  return Boolean(config?.inbox && current?.running && current.streamId);
}

const ANNOUNCEMENTS = {
  connecting: () => "Asking the agent.",
  open: (turn) => (turn.trace.figures.reconnects ? "Connected again." : "The answer begins."),
  waiting: () => "The connection was lost; reconnecting.",
  done: ({ answer: { text, asked } }) =>
    asked >= 0 ? `The agent asks: ${text.slice(asked)}` : `The answer is complete: ${text.split(/\s+/).length} words.`,
  cancelled: () => "The answer was stopped.",
};

function turnChanged(turn) {
  if (turn !== current) return;
  const text = ANNOUNCEMENTS[turn.status]?.(turn);
  if (text) announce(text);
  setStatus(turn.status);
  timeline.dirty = true; // the axis of a finished answer ends with it
  if (turn.streamId || !turn.running) saveTurns();
  schedule();
}

let announced = 0;
let announcement = null;

/** Have a text read out: the last of several, as often as one can listen. */
function announce(text) {
  const waiting = announcement !== null;
  announcement = text;
  if (waiting) return;
  setTimeout(() => {
    announced = performance.now();
    $("live").textContent = announcement;
    announcement = null;
  }, Math.max(announced + ANNOUNCE_EVERY - performance.now(), 100));
}

let timer = 0;

/** Show a text for a moment, and read it out. */
function tell(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
  announce(text);
  clearTimeout(timer);
  timer = setTimeout(() => { $("toast").hidden = true; }, SHOWN_FOR);
}

/** Copy a text; `what` is its name. */
async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    tell(`Copied ${what}.`);
  } catch {
    tell("The browser did not allow copying.");
  }
}

// Drawing: at most once for each frame, with a rest after a long one

let scheduled = false;
let drawAfter = 0;

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(frame);
}

function frame(now) {
  scheduled = false;
  const running = current?.running;
  if (now >= drawAfter || !running) {
    const from = performance.now();
    drawAll(running);
    const end = performance.now();
    drawAfter = end + REST * (end - from);
  }
  if (running) schedule();
}

// The log follows the answer until the reader scrolls up.
let atEnd = true;
let lastTop = 0;
$("log").addEventListener("scroll", () => {
  const { scrollHeight, scrollTop, clientHeight } = $("log");
  if (scrollHeight - scrollTop - clientHeight < 60) atEnd = true;
  else if (scrollTop < lastTop) atEnd = false;
  lastTop = scrollTop;
});

function drawAll(running) {
  current?.draw();
  if (atEnd) $("log").scrollTop = $("log").scrollHeight;
  if (shown) {
    timeline.dirty ||= running || shown.running;
    drawFigures(shown.trace);
    drawStory(shown.trace);
  }
  timeline.draw();
}

// Turns

function addTurn(question) {
  const turn = new Turn(question, turnChanged);
  turn.answer.decide = decide;
  turn.select.addEventListener("click", () => showTimeline(turn, true));
  turns.push(turn);
  $("empty").hidden = true;
  $("turns").append(turn.element);
  if (turns.length > MAX_TURNS) turns.shift().element.remove();
  return turn;
}

function saveTurns() {
  session.save(turns.map((turn) => turn.kept));
}

function showTimeline(turn, focus = false) {
  shown = turn;
  for (const each of turns) each.element.classList.toggle("shown", each === turn);
  $("timeline-empty").hidden = true;
  timeline.show(turn.trace);
  drawStory(turn.trace);
  if (focus) {
    openInspector(true);
    $("timeline").focus();
  }
  schedule();
}

function start(turn) {
  current = turn;
  begun = performance.now();
  delete document.body.dataset.lastSeq;
  showTimeline(turn);
  atEnd = true;
  for (const form of $("turns").querySelectorAll(".approval")) form.parentNode.remove(); // this is the answer
}

async function ask(question, request = null) {
  const turn = addTurn(question);
  turn.request = request ?? client.chatRequest(question, { sessionId: session.id, rewinds: true });
  start(turn);
  await turn.read((options) => client.assist(turn.request, options));
  ended(turn, () => ask(question, turn.request));
}

async function decide(approved, reason) {
  const turn = current;
  await turn.reading; // its last packet comes before its end
  if (turn !== current) return;
  const words = approved ? "yes" : ["no", reason].filter(Boolean).join(", ");
  const request = client.chatRequest(words, { sessionId: session.id, rewinds: true });
  request.payload.metadata = { answer: { approved, reason, question_id: turn.streamId } };
  ask(words, request);
  $("log").focus(); // the button is gone
}

let sending = Promise.resolve(); // so that messages arrive in order
const unsent = new Map(); // ids of messages that may have arrived

function say(text) {
  const { answer, lastSeq } = current;
  const message = { id: unsent.get(text) ?? newId(), text, after: lastSeq ?? 0 };
  unsent.delete(text);
  answer.say(message);
  deliver(current, message);
}

function deliver({ answer, streamId }, message) {
  const { id, text } = message;
  sending = sending.then(async () => {
    try {
      await client.send(streamId, text, { messageId: id });
      message.sent = true;
      announce("Your message was sent to the agent.");
    } catch (error) {
      answer.unsay(message);
      $("question").value = [text, $("question").value].filter(Boolean).join("\n");
      unsent.set(text, id);
      tell(`${(error.statusCode ?? 500) < 500 ? "Not" : "Perhaps not"} sent: ${sentenceOf(error)}`);
    }
    saveTurns();
  });
}

async function follow(kept) {
  const turn = addTurn(kept.question);
  turn.answer.said = kept.said ?? [];
  turn.streamId = kept.streamId;
  turn.replayedTo = kept.lastSeq ?? null;
  turn.before = kept;
  start(turn);
  for (const message of turn.answer.said) if (!message.sent) deliver(turn, message);
  await turn.read((options) => client.follow(kept.streamId, options));
  if (GONE.includes(turn.error?.statusCode) && kept.text) {
    turn.failure.remove();
    turn.answer.restore(kept);
    turn.change("done");
  } else ended(turn, () => follow(kept));
}

// What others ask in the conversation. Answers that this tab has read are passed over.
async function listen() {
  listening = true;
  try {
    for await (const answer of client.followConversation(session.id)) await join(answer);
  } catch (error) {
    if (![401, 404, 429].includes(error.statusCode)) return setTimeout(listen, 3_000); // a restart
    listening = false;
    tell(`What others ask is not shown: ${sentenceOf(error)}`);
  }
}

async function join(answer) {
  try {
    const { value } = await answer.next();
    while (current?.running) await current.reading;
    const { streamId } = answer;
    const question = value.seq ? null : value.p.data.text;
    if (!turns.some((turn) => turn.streamId === streamId)) await follow({ question, streamId, text: "" });
    for await (const _ of answer);
  } catch (error) {
    if (!error.streamError) throw error;
  }
}

function ended(turn, again) {
  if (session.shared && !listening) listen();
  const { ending, unread } = turn.answer;
  const streamId = ending?.next_stream;
  if (streamId && turn === current) follow({ question: unread.join("\n\n") || null, streamId, text: "" });
  if (turn.status !== "failed") return;
  if (turn.error?.statusCode === 401 && config.needs_key) return askForKey("The server did not accept the key.", () => {
    removeTurn(turn);
    again();
  });
  const over = turn.error?.streamError || GONE.includes(turn.error?.statusCode);
  const button = element("button", "", turn.streamId && !over ? "Continue reading" : "Ask again");
  button.type = "button";
  button.hidden = turn.question === null && over;
  button.addEventListener("click", () => {
    if (current?.running) return;
    if (over) return ask(turn.question);
    removeTurn(turn);
    if (turn.streamId) follow(turn.kept);
    else ask(turn.question, turn.request); // the same request: the agent may have begun to answer it
  });
  turn.failure.append(button);
  // As the banner promises.
  if (!navigator.onLine && turn.streamId && !over) {
    addEventListener("online", () => button.isConnected && button.click(), { once: true });
  }
  schedule();
  announce(`The answer failed: ${clean(turn.error?.message ?? "").slice(0, 200)}`);
}

function removeTurn(turn) {
  turns.splice(turns.indexOf(turn), 1);
  turn.element.remove();
}

const timeline = new Timeline($("timeline"), $("canvas"), $("timeline-option"), (mark) => {
  showDetails(mark, shown?.trace);
  schedule();
});

// Buttons

function on(id, action) {
  $(id).addEventListener("click", action);
}

function target() {
  return {
    protocol: config.protocol,
    url: config.target ?? client.url,
    card: config.card,
    question: current.question,
    request: current.request ?? client.chatRequest(current.question, { sessionId: session.id }),
    needsKey: config.needs_key || config.adds_key,
    curlOption: config.curl_option,
  };
}

async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (secret()) headers.Authorization = `Bearer ${secret()}`;
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await problemOf(response));
}

async function problemOf(response) {
  const problem = await response.json().catch(() => null);
  return typeof problem?.detail === "string" ? clean(problem.detail) : `The server answered with ${response.status}.`;
}

/** Return what the server says about a refusal. */
function sentenceOf(error) {
  try {
    return clean(JSON.parse(error.body).detail);
  } catch {
    return error.message;
  }
}

async function cut() {
  // With a seed, the connections after this one are cut too, each after a number of packets.
  const seed = $("cut-more").checked ? Math.floor(Math.random() * 2 ** 31) : null;
  try {
    await post("page/cut", { stream_id: current.streamId, seed });
  } catch (error) {
    tell(`The connection was not cut: ${error.message}`);
  }
}

async function stop() {
  if (performance.now() - begun < DOUBLE_CLICK) return;
  const turn = current;
  if (!turn.streamId) return turn.leaving.abort();
  $("send").disabled = $("stop").disabled = true;
  try {
    await client.cancel(turn.streamId);
  } catch (error) {
    tell(`The answer was not stopped: ${error.message}`);
    setStatus(turn.status);
  }
}

function exportJson() {
  const json = JSON.stringify(asExport(config, turns, new Date()), null, 1);
  const anchor = element("a");
  anchor.href = URL.createObjectURL(new Blob([json], { type: "application/json" }));
  anchor.download = `${config.agent_id || "conversation"}.json`.replace(/[^\w.-]+/g, "-");
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
  tell("Exported the conversation.");
}

// While an answer runs, this button stops it, unless its agent takes messages; Enter does not.
on("send", (event) => {
  if (!current?.running || canSay()) return;
  event.preventDefault();
  stop();
});
on("stop", stop);
on("cut", cut);
on("reload", () => {
  saveTurns();
  location.reload();
});
on("tab", () => {
  saveTurns();
  if (!openTab(current.streamId)) tell("The browser did not allow a new tab.");
});
on("curl", () => copy(asCurl(target()), "the curl command"));
on("python", () => copy(asPython(target()), "the Python program"));
on("export", exportJson);
on("copy-json", () => copy(JSON.stringify(timeline.selected.packet), "the packet"));
on("zoom-in", () => { timeline.zoom(0.5); timeline.draw(); });
on("zoom-out", () => { timeline.zoom(2); timeline.draw(); });
on("zoom-fit", () => { timeline.fit(); timeline.draw(); });
on("details-close", () => { timeline.select(null); $("timeline").focus(); });
on("fold", () => openInspector(!$("inspector").classList.contains("open")));
on("card", () => $("card-dialog").showModal());
on("card-close", () => $("card-dialog").close());
on("key", () => askForKey("", retry));
on("key-close", () => $("key-dialog").close());
on("connect", connect);
on("new", () => {
  turns.length = 0;
  session.startOver(history);
  location.reload();
});

$("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!current?.running || canSay()) $("ask").requestSubmit();
});

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = $("question").value.trim();
  if (!question || !config || (current?.running && !canSay())) return;
  $("question").value = "";
  if (canSay()) say(question);
  else ask(question);
});

addEventListener("pagehide", saveTurns);
for (const type of ["online", "offline"]) addEventListener(type, showNetwork);

// A new address of `coreason inspect` in the same tab changes only the fragment.
addEventListener("hashchange", () => /[#&](?:token|stream|conversation)=/.test(location.hash) && location.reload());

function showNetwork() {
  $("offline").hidden = navigator.onLine;
}

// The key

/** The secret for requests to the agent. A token is only for an inspector, which needs no key. */
function secret() {
  return config.needs_key ? session.key : session.token;
}

function askForKey(reason, action) {
  retry = action;
  setStatus("needs-key");
  $("key-reason").textContent = reason || "The agent answers only requests with a key.";
  if (!$("key-dialog").open) $("key-dialog").showModal();
  $("key-input").focus();
}

function useKey(key, keep) {
  session.setKey(key, keep);
  $("key-input").value = "";
  $("key-dialog").close();
  setStatus(current?.status ?? "idle");
  const action = retry;
  retry = null;
  action?.();
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const key = $("key-input").value.trim();
  if (key) useKey(key, $("key-keep").checked);
});

exchangeKeys(() => session.key, (key) => session.key ?? useKey(key, false));

// The start

async function connect() {
  setStatus("starting");
  $("unreachable").hidden = true;
  try {
    const headers = session.token ? { Authorization: `Bearer ${session.token}` } : {};
    const response = await fetch("page/config.json", { headers, cache: "no-store" });
    if (!response.ok) throw new Error(await problemOf(response));
    config = await response.json();
  } catch (error) {
    // `fetch` reports every kind of lost connection as a TypeError.
    $("unreachable-reason").textContent = error instanceof TypeError ? "Is the server still running?" : error.message;
    $("unreachable").hidden = false;
    return setStatus("unreachable");
  }
  showConfig();
  begin();
}

function showConfig() {
  const { card } = config;
  const name = clean(card?.name || config.agent_id || "Agent");
  document.title = name;
  $("agent-name").textContent = name;
  $("agent-version").textContent = clean([card?.version || config.version, config.protocol.toUpperCase(), config.target].filter(Boolean).join(" · "));
  if (config.documents) linkDocuments(new URL("page/docs/", location.href));
  $("card").hidden = !card;
  $("key").hidden = !config.needs_key;
  for (const id of ["cut", "cut-more-label"]) $(id).hidden = !config.cut;
  if (config.cut) $("empty-title").textContent = "Ask. Then cut the connection.";
  if (card) {
    $("card-title").textContent = name;
    showCard($("card-body"), card);
  }
  const questions = examples(card);
  const suggested = questions.length ? questions : ["What can you do?", "How do I resume a stream?"];
  $("suggestions").replaceChildren(...suggested.map(suggestion));
  client = new CAPClient(new URL(".", location.href).href, { getKey: secret, maxEventBytes: 20_000_000 });
}

function suggestion(text) {
  const button = element("button", "suggestion", text);
  button.type = "button";
  button.addEventListener("click", () => !current?.running && ask(text));
  return button;
}

let fragmentStream = session.takeFragment(location, history);

function begin() {
  setStatus("idle");
  if (config.needs_key && !session.key) {
    askOpener();
    return askForKey("", begin);
  }
  const kept = session.turns;
  const streamId = fragmentStream ?? kept.at(-1)?.streamId;
  fragmentStream = null;
  const last = kept.find((turn) => (streamId ? turn.streamId === streamId : turn.request));
  for (const turn of kept) if (turn !== last) restore(turn);
  if (session.shared) listen();
  if (streamId) follow(last ?? { question: null, text: "", streamId, lastSeq: null });
  else if (last) ask(last.question, last.request);
}

function restore(kept) {
  const turn = addTurn(kept.question);
  turn.streamId = kept.streamId;
  turn.answer.said = kept.said ?? [];
  turn.answer.restore(kept);
  turn.setStatus("done");
  turn.select.hidden = true;
}

showNetwork();
connect();
