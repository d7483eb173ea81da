/** The CAP client for browsers and Node.js 20 or later. Times in options are milliseconds. */

/** A value that JSON can carry. */
export type JSONValue = string | number | boolean | null | JSONValue[] | JSONObject;
/** A JSON object. */
export interface JSONObject {
  [name: string]: JSONValue | undefined;
}

/** An error in a stream: `code` and `severity` for programs, `message` for people. */
export interface StreamError {
  code: string;
  message: string;
  severity: "FATAL" | "TRANSIENT" | "WARNING";
  details?: JSONObject | null;
}

interface PacketFields {
  /** The stream; a new attempt at an answer is a new stream. */
  stream_id: string;
  /** The number of the packet; it increases within a stream. */
  seq: number;
  /** When the packet was written. */
  t: string;
}
/** A piece of text. */
export interface DeltaPacket extends PacketFields {
  op: "DELTA";
  p: string;
}
/** Content to show: a presentation event, or any other object. */
export interface EventPacket extends PacketFields {
  op: "EVENT";
  p: JSONObject;
}
// Types and no interfaces, so that `packet.p as ToolCallEvent` compiles.
type ReportFields = { id: string; timestamp: string };
/** A tool call that begins, as the `p` of an EVENT packet; an agent may use the name for other data. */
export type ToolCallEvent = ReportFields & {
  type: "TOOL_CALL";
  data: {
    call_id: string;
    name: string;
    /** Usually an object. */
    arguments: JSONValue;
    /** The answer of the model that made the call, counted from 1. */
    turn?: number;
  };
};
/** The result of the tool call with the same `call_id`. */
export type ToolResultEvent = ReportFields & {
  type: "TOOL_RESULT";
  data: {
    call_id: string;
    result: JSONValue;
    /** Whether the call failed. */
    is_error: boolean;
    name?: string;
    turn?: number;
    seconds?: number;
  };
};
/** The tokens and the cost of requests to a model; several events of one stream add up. */
export type UsageEvent = ReportFields & {
  type: "USAGE";
  data: {
    /** With the tokens of a cache. */
    prompt_tokens: number;
    /** With the tokens of the reasoning. */
    completion_tokens: number;
    total_tokens: number;
    /** In dollars; null if it is not known. */
    cost_estimate: number | null;
    cached_tokens?: number;
    cache_write_tokens?: number;
    reasoning_tokens?: number;
    estimated?: boolean;
    model?: string;
    finish_reason?: string;
    filtered?: boolean;
    /** The number of answers of the model. */
    turns?: number;
  };
};
/** An error in the stream; only warnings are handed out. */
export interface ErrorPacket extends PacketFields {
  op: "ERROR";
  p: StreamError;
}
/** The end of the stream; nothing follows it. */
export interface ClosePacket extends PacketFields {
  op: "CLOSE";
  p: Exclude<JSONValue, null>;
}
/** One packet of a stream. */
export type Packet = DeltaPacket | EventPacket | ErrorPacket | ClosePacket;

/** A position in a stream, which can be saved as JSON and used elsewhere. */
export interface Position {
  /** The stream. */
  streamId: string;
  /** The number of the last packet that was handed out. */
  seq: number;
  /** The last SSE id that the server sent; null if it sends none. */
  lastEventId: string | null;
}
/** A position as the Python client writes it. */
export interface PythonPosition {
  stream_id: string;
  seq: number;
  cursor?: string | null;
}

/** The body of `POST /assist`; without a `request_id` a new one is used. */
export interface ServiceRequest {
  request_id?: string;
  context: { session_id: string; user_id: string; [name: string]: unknown };
  payload: { messages?: unknown[]; payload?: unknown; [name: string]: unknown };
}
/** A request with its id. */
export type SentRequest = ServiceRequest & { request_id: string };

/** A store for the request and the position of one stream, for going on after a reload. */
export interface PositionStorage {
  /** Returns what was saved; null if there is nothing. */
  load(): Saved | null | Promise<Saved | null>;
  /** Called before the first request, and with every packet as it is handed out. */
  save(position: Position | null, request: SentRequest | null): void | Promise<void>;
  /** Called when the stream has ended for good. */
  clear(): void | Promise<void>;
}
/** What a storage keeps; the request is null for a stream that was followed. */
export interface Saved {
  request: SentRequest | null;
  position: Position | null;
}
/** A storage in `sessionStorage`, or in another store of this kind; if it is forbidden or full, nothing is kept. */
export function sessionPosition(
  name?: string,
  store?: Pick<Storage, "getItem" | "setItem" | "removeItem">,
): SessionPosition;
/** The storage that `sessionPosition` returns. */
export interface SessionPosition extends PositionStorage {
  load(): Saved | null;
}

/** One event of the life of a stream; `at` is in milliseconds, `connection` counts from 1. */
export type TraceEvent = { at: number; connection: number } & (
  | { type: "connect"; cursor: string | null }
  | { type: "open"; status: number; requestId: string | null; streamId: string | null }
  | { type: "packet"; packet: Packet; bytes: number; id: string; event: string }
  | { type: "duplicate"; packet: Packet; bytes: number; id: string }
  | { type: "gap"; expected: number; received: number }
  | { type: "rewind"; from: number; to: number }
  | { type: "warning"; error: StreamError }
  | { type: "cut"; reason: string; error: unknown }
  | { type: "wait"; seconds: number; attempt: number }
  | { type: "end"; outcome: "close" | "fatal" | "left" | "error" }
);

/** The options of one call; they replace those of the client. */
export interface CallOptions {
  /** Aborting it leaves the stream: reading stops, the agent continues. */
  signal?: AbortSignal;
  /** Extra headers; those of the protocol cannot be replaced. */
  headers?: Record<string, string>;
  /** The longest silence before a connection counts as lost; 60,000 by default. */
  timeout?: number;
  /** The time within which the whole answer has to be complete; no limit by default. */
  deadline?: number;
  /** The number of reconnections in a row without a new packet; 3 by default. */
  maxRetries?: number;
  /** How long a stream that has begun keeps reconnecting; 30,000, or 0 if maxRetries is given. */
  reconnectFor?: number;
  /** The longest delay that a server may ask for; 60,000 by default. */
  maxRetryDelay?: number;
  /** The first and the longest delay before a reconnection; 500 and 30,000 by default. */
  backoff?: { first?: number; longest?: number };
  /** Throw an error if numbers are missing and a reconnection does not bring them. */
  strictSequence?: boolean;
  /** The largest event that is accepted, in bytes; 10,000,000 by default. */
  maxEventBytes?: number;
  /**
   * For `assist`, `resume` and `follow`: the caller handles REWIND events. If the server has lost
   * packets, the stream is then read again from its start, after a REWIND event with the number 0,
   * instead of an error. A chat does so if it was begun with `rewinds`.
   */
  rewinds?: boolean;
  /** Where the position is kept. */
  storage?: PositionStorage | null;
  /** Called with everything that happens; it must not throw. */
  onTrace?: (event: TraceEvent) => void;
}
/** The options of a client. */
export interface ClientOptions extends Omit<CallOptions, "signal"> {
  /** The key that is sent as a bearer token. */
  key?: string;
  /**
   * Returns the key; called before every request, also before every reconnection. There a failure
   * counts as a lost connection.
   */
  getKey?: () => string | null | undefined | Promise<string | null | undefined>;
  /** The user id that `chat` sends; "anonymous" by default. */
  userId?: string;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch;
  /** For tests: waits; ends early only after `atLeast`. */
  sleep?: (wait: number, atLeast: number, signal?: AbortSignal) => Promise<void>;
  /** For tests: a number from 0 to 1, for the jitter. */
  random?: () => number;
  /** For tests: the time since 1970. */
  now?: () => number;
  /** For tests: a monotonic time. */
  clock?: () => number;
}
/** The options of `chatRequest` and `chat`. */
export interface ChatOptions {
  /** The conversation; without it a new one begins. */
  sessionId?: string;
  /** The user id that is sent. */
  userId?: string;
  /** Whether a restarted agent may write a part of its answer anew; see `Rewound`. */
  rewinds?: boolean;
}

/** A part of the text is void, because the agent was restarted and writes it anew. */
export interface Rewound {
  /** The text that is still valid; show it instead of what was shown so far. */
  text: string;
  /** The number of the last packet that is still valid. */
  toSeq: number;
  /** The stream is read again from its start: `text` is all that is valid, from here on. */
  whole: boolean;
}

/** The state of a stream. */
export type Status = "connecting" | "open" | "waiting" | "done" | "failed" | "left";

interface Progress {
  /** The request that the stream answers; null if it was followed by its id. */
  readonly request: SentRequest | null;
  /** The state of the stream. */
  readonly status: Status;
  /** The position after the last packet that was handed out; null before the first. */
  readonly position: Position | null;
  /** The id of the stream; null before the first response. */
  readonly streamId: string | null;
  /** Whether the answer was read to its end. */
  readonly complete: boolean;
  /** The number of connections after the first. */
  readonly reconnects: number;
  /** Tells the agent to stop; leaving the stream does not. */
  cancel(): Promise<void>;
}

/** The packets of an answer, CLOSE last; reconnects by itself. Nothing is sent before iterating. */
export class PacketStream implements Progress, AsyncIterableIterator<Packet> {
  private constructor();
  readonly request: SentRequest | null;
  readonly status: Status;
  readonly position: Position | null;
  readonly streamId: string | null;
  readonly complete: boolean;
  readonly reconnects: number;
  cancel(): Promise<void>;
  next(): Promise<IteratorResult<Packet, undefined>>;
  return(value?: unknown): Promise<IteratorResult<Packet, undefined>>;
  [Symbol.asyncIterator](): this;
}

/** The text of an answer; with `rewinds` also `Rewound` where text became void. */
export class ChatStream<Piece = string> implements Progress, AsyncIterableIterator<Piece> {
  private constructor();
  readonly request: SentRequest;
  readonly status: Status;
  readonly position: Position | null;
  readonly streamId: string | null;
  readonly complete: boolean;
  readonly reconnects: number;
  /** The conversation; pass it to the next `chat` to continue it. */
  readonly sessionId: string;
  /** The text so far, without text that became void. */
  readonly text: string;
  /** The events so far: citations, progress, media and the like. */
  readonly events: JSONObject[];
  cancel(): Promise<void>;
  next(): Promise<IteratorResult<Piece, undefined>>;
  return(value?: unknown): Promise<IteratorResult<Piece, undefined>>;
  [Symbol.asyncIterator](): this;
}

/** A client for one agent service. */
export class CAPClient {
  /** `url` is the root of the service; in a page it may be relative. */
  constructor(url: string | URL, options?: ClientOptions);
  /** The root of the service, without a final slash. */
  readonly url: string;
  /** Sends a message; iterate for the text. */
  chat(message: string, options: ChatOptions & CallOptions & { rewinds: true }): ChatStream<string | Rewound>;
  chat(message: string, options?: ChatOptions & CallOptions): ChatStream;
  /** Continues a chat after a position; with null the request is sent again. */
  resumeChat(
    request: ServiceRequest,
    position: Position | PythonPosition | null,
    options?: CallOptions,
  ): ChatStream<string | Rewound>;
  /** Sends a request; iterate for the packets. */
  assist(request: ServiceRequest, options?: CallOptions): PacketStream;
  /** Continues a stream after a position; without a request it is read by its id. */
  resume(
    request: ServiceRequest | null,
    position: Position | PythonPosition | null,
    options?: CallOptions,
  ): PacketStream;
  /** Reads a stream by its id, in a second tab or on another device. */
  follow(streamId: string, options?: CallOptions & { position?: Position | PythonPosition | null }): PacketStream;
  /**
   * Yields the answers of a conversation one after the other, without end, also those that others ask
   * for; the agent needs `on_busy`. It begins with the answer that is being written, or with the next
   * one; `position` is that of an answer which was read before. Read each answer before the next one.
   */
  followConversation(
    conversationId: string,
    options?: CallOptions & { position?: Position | PythonPosition | null },
  ): AsyncGenerator<PacketStream, never, void>;
  /** Tells the agent to stop working on a stream. */
  cancel(streamId: string, options?: CallOptions): Promise<void>;
  /**
   * Sends a message to an agent that is still answering: to a stream, or to its id. Sent again with
   * its `messageId`, it is delivered once; without one it gets a new one, which retries keep. Throws
   * a `CAPRuntimeError` if the stream has ended (409), if its agent takes no messages or the stream is
   * not known (404), or if too many are unread (429).
   */
  send(
    stream: string | PacketStream | ChatStream<unknown>,
    text: string,
    options?: CallOptions & { messageId?: string },
  ): Promise<void>;
  /** Returns the request for a user's message, for `assist`. */
  chatRequest(message: string, options?: ChatOptions): SentRequest;
}

/** The base class of all errors of the client. */
export class CAPError extends Error {
  constructor(message: string, fields?: Partial<CAPErrorFields> & { cause?: unknown });
  /** The position after the last packet, for `resume`; null before the first packet. */
  readonly position: Position | null;
  /** The number of connections in a row that failed; 0 if the error has another reason. */
  readonly attempts: number;
  /** The HTTP method of the last request. */
  readonly method: string | null;
  /** Its URL, without the query. */
  readonly url: string | null;
  /** The HTTP status of the response, if it is the reason. */
  readonly statusCode: number | null;
  /** Its headers. */
  readonly headers: Headers | null;
  /** Its body, up to a limit. */
  readonly body: string | null;
  /** The seconds that the server asked to wait. */
  readonly retryAfter: number | null;
  /** The error that the server sent in the stream. */
  readonly streamError: StreamError | null;
}
type CAPErrorFields = Pick<
  CAPError,
  "position" | "attempts" | "method" | "url" | "statusCode" | "headers" | "body" | "retryAfter" | "streamError"
>;
/** Connecting failed, or connections kept breaking, until the retry budget was exhausted. */
export class CAPConnectionError extends CAPError {}
/** The server violated the wire protocol. */
export class CAPProtocolError extends CAPError {}
/**
 * The server sent another answer than the one being read; two answers are never joined. Either it is
 * another stream, after a reconnection; or the same stream, of which the server has lost packets, so
 * that another run of the agent has written it anew.
 */
export class CAPStreamReset extends CAPProtocolError {
  constructor(expected: string, received: string, position: Position | null);
  /** The stream that was being read. */
  readonly expected: string;
  /** The stream that the server sent instead; the same one if it was written anew. */
  readonly received: string;
}
/** The server rejected the request, or ended the stream with a fatal error. */
export class CAPRuntimeError extends CAPError {}
/** The answer was not complete within the deadline. */
export class CAPTimeoutError extends CAPError {}

/** One server-sent event; `valid` is false if its data is not UTF-8, `bytes` the size of its data. */
export interface SSEEvent {
  data: string;
  event: string;
  id: string;
  bytes: number;
  valid: boolean;
}
/** Decodes one event stream; every connection needs a new decoder. */
export class SSEDecoder {
  constructor(maxEventBytes?: number, lastEventId?: string);
  /** The id as of the last complete block. */
  lastEventId: string;
  /** The reconnection time that the server asked for. */
  retryMs: number | null;
  /** Processes bytes and yields the events that are complete now; throws `SSEEventTooLarge`. */
  events(chunk: Uint8Array): Generator<SSEEvent, void, undefined>;
}
/** The data of an event, or a single line, is longer than the limit of the decoder. */
export class SSEEventTooLarge extends Error {
  constructor(limit: number);
  readonly limit: number;
}

/** A request of the resume machine; one with `bare` carries no credentials. */
export interface MachineRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  body?: string;
  bare?: boolean;
}
/** The rules of a stream over several connections, without I/O; for other transports and tests. */
export class ResumeMachine {
  /** `attempt` returns the request of a connection; `expected` is the only stream to accept. */
  constructor(
    attempt: (cursor: string | null) => MachineRequest,
    options?: Omit<ClientOptions, "fetch" | "sleep" | "key" | "getKey" | "storage"> & {
      position?: Position | null;
      expected?: string | null;
      attempts?: number;
      redact?: (text: string) => string;
    },
  );
  /** The number of connections that were attempted. */
  readonly attempts: number;
  /** The position after the last packet that was handed out. */
  readonly position: Position | null;
  /** Whether the stream was read to its end. */
  readonly complete: boolean;
  /** Whether more bytes of this response are wanted. */
  readonly reading: boolean;
  /** The time until the deadline. */
  readonly timeLeft: number;
  /** Returns the next step: a request, a wait, or null at the end. */
  nextStep(): MachineRequest | { wait: number; atLeast: number } | null;
  /** Returns true if this response carries the stream. */
  accepts(head: { status: number; headers: Headers }): boolean;
  /** Follows a redirect, counts a loss, or throws the error that the response means. */
  refused(head: { status: number; headers: Headers }, body: string): void;
  /** Processes bytes and yields the new packets; the position moves as each is handed out. */
  receive(chunk: Uint8Array): Generator<Packet, void, undefined>;
  /** Records that the connection has ended: with a failure, or cleanly (null). */
  lost(failure: { message: string; final?: boolean; cause?: unknown } | null): void;
  /** Returns the error for reading a stream that was left or has failed. */
  endedEarly(why: string): CAPConnectionError;
  /** Reports an event to `onTrace`. */
  trace(type: string, fields: object): void;
}
