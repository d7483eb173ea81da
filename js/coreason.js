// The CAP client for browsers and Node.js 20+: see coreason.d.ts and docs/decisions.md. Decoder and
// machine do no I/O. Times are milliseconds, except on the wire.

const MAX_BODY_BYTES = 65_536; // of an error
const MAX_DRAINS = 10;
const MAX_REDIRECTS = 5;
const MAX_REREADS = 3;
const EVENT_STREAM = "text/event-stream";
const POSITION_GONE = "urn:coreason:problem:position-gone";
const RETRIED_STATUSES = [200, 408, 425, 429, 500, 502, 503, 504]; // a 200 of another type
const SAFE_HEADERS = ["accept", "content-type", "last-event-id", "x-request-id"];
const DEFAULTS = {
  headers: {}, timeout: 60_000, deadline: Infinity, maxRetries: 3, reconnectFor: 0,
  maxRetryDelay: 60_000, backoff: { first: 500, longest: 30_000 }, strictSequence: false,
  maxEventBytes: 10_000_000, userId: "anonymous", onTrace() {}, sleep, random: Math.random,
  now: Date.now, clock: () => performance.now(), fetch: (...args) => globalThis.fetch(...args),
};

// Errors

export class CAPError extends Error {
  constructor(message, { cause, ...fields } = {}) {
    super(message, { cause });
    Object.assign(this, {
      position: null, attempts: 0, method: null, url: null, statusCode: null, headers: null,
      body: null, retryAfter: null, streamError: null,
    }, fields);
  }
}
export class CAPConnectionError extends CAPError {}
export class CAPProtocolError extends CAPError {}
export class CAPRuntimeError extends CAPError {}
export class CAPTimeoutError extends CAPError {}
export class CAPStreamReset extends CAPProtocolError {
  constructor(expected, received, position) {
    const what = expected === received
      ? `stream ${expected} was written anew; read it from its start (rewinds: true), or`
      : `the server sent stream ${received} instead of ${expected}, another answer;`;
    super(`${what} send the message again with a new request_id`, { expected, received, position });
  }
}
export class SSEEventTooLarge extends Error {
  constructor(limit) {
    super(`a server-sent event is larger than maxEventBytes, ${limit} bytes`);
    this.limit = limit;
  }
}
// Minifiers rename classes.
for (const [name, Kind] of Object.entries({
  CAPError, CAPConnectionError, CAPProtocolError, CAPRuntimeError, CAPTimeoutError,
  CAPStreamReset, SSEEventTooLarge,
})) Kind.prototype.name = name;

// Server-sent events (WHATWG)

const LF = 10;
const CR = 13;
const BOM = [0xef, 0xbb, 0xbf];
const LONGEST_PREFIX = "retry: ".length;
// For whole lines.
const strictUTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lossyUTF8 = new TextDecoder("utf-8", { ignoreBOM: true });
const newBlock = () => ({ data: [], bytes: 0, event: "message", id: null, valid: true });

export class SSEDecoder {
  #limit;
  #line = new Uint8Array(256); // the unfinished line
  #length = 0;
  #afterCR = false;
  #atStart = true;
  #block = newBlock();

  constructor(maxEventBytes = DEFAULTS.maxEventBytes, lastEventId = "") {
    this.#limit = maxEventBytes;
    this.lastEventId = lastEventId;
    this.retryMs = null; // at once, not with its block
  }

  *events(chunk) {
    let start = this.#afterCR && chunk[0] === LF ? 1 : 0;
    if (chunk.length) this.#afterCR = false;
    let cr = chunk.indexOf(CR, start);
    let lf = chunk.indexOf(LF, start);
    while (lf >= 0 || cr >= 0) {
      const isCR = cr >= 0 && (lf < 0 || cr < lf);
      const end = isCR ? cr : lf;
      const event = this.#endLine(chunk.subarray(start, end));
      start = end + 1;
      if (isCR) {
        this.#afterCR = start === chunk.length;
        if (chunk[start] === LF) start += 1;
        cr = chunk.indexOf(CR, start);
      }
      if (lf >= 0 && lf < start) lf = chunk.indexOf(LF, start);
      if (event) yield event;
    }
    this.#store(chunk.subarray(start));
  }

  #store(bytes) {
    const length = this.#length + bytes.length;
    if (length > this.#limit + LONGEST_PREFIX + BOM.length) throw new SSEEventTooLarge(this.#limit);
    if (length > this.#line.length) {
      const larger = new Uint8Array(2 * length);
      larger.set(this.#line.subarray(0, this.#length));
      this.#line = larger;
    }
    this.#line.set(bytes, this.#length);
    this.#length = length;
  }

  #endLine(bytes) {
    let line = bytes;
    if (this.#length) {
      this.#store(bytes);
      line = this.#line.subarray(0, this.#length);
      this.#length = 0;
    }
    if (this.#atStart && BOM.every((byte, at) => line[at] === byte)) line = line.subarray(3);
    this.#atStart = false;
    if (line.length) return this.#readField(line);
    const { data, id, ...rest } = this.#block;
    this.#block = newBlock();
    this.lastEventId = id ?? this.lastEventId;
    return data.length ? { ...rest, data: data.join("\n"), id: this.lastEventId } : null;
  }

  #readField(line) {
    const block = this.#block;
    let text;
    let valid = true;
    try {
      text = strictUTF8.decode(line);
    } catch {
      text = lossyUTF8.decode(line);
      valid = false;
    }
    const [, name, prefix, value] = /^([^:]*)(:? ?)(.*)$/s.exec(text);
    if (name === "data") {
      block.bytes += line.length - 4 - prefix.length + (block.data.length ? 1 : 0);
      block.data.push(value);
      block.valid &&= valid;
    } else if (name === "id") {
      if (!value.includes("\0")) block.id = value;
    } else if (name === "event") {
      block.event = value || "message";
    } else if (name === "retry" && /^[0-9]{1,18}$/.test(value)) {
      this.retryMs = Number(value);
    }
    if (block.bytes > this.#limit || line.length > this.#limit + LONGEST_PREFIX) {
      throw new SSEEventTooLarge(this.#limit);
    }
  }
}

// Packets

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value) => typeof value === "string";
const isId = (value) => isText(value) && UUID.test(value);
const isNumber = (value) => typeof value === "number";
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

const ERROR_FIELDS = {
  code: isText,
  message: isText,
  severity: (value) => ["FATAL", "TRANSIENT", "WARNING"].includes(value),
  details: (value) => value == null || isObject(value),
};
const PAYLOADS = {
  DELTA: isText,
  EVENT: isObject,
  ERROR: (p) => !problemOf(p, ERROR_FIELDS),
  CLOSE: (p) => p != null,
};
const PACKET_FIELDS = {
  stream_id: isId,
  seq: isCount,
  op: (value) => isText(value) && Object.hasOwn(PAYLOADS, value),
  t: (value) => (isText(value) || isNumber(value)) && !Number.isNaN(+new Date(value)),
  p: (value, packet) => PAYLOADS[packet.op](value),
};

function problemOf(value, fields) {
  if (!isObject(value)) return "it is not an object";
  if (!Object.keys(value).every((name) => Object.hasOwn(fields, name))) return "a field is unknown";
  const wrong = Object.keys(fields).find((name) => !fields[name](value[name], value));
  return wrong ? `${wrong} is missing or wrong` : "";
}

const isFatal = ({ op, p }) => op === "ERROR" && p.severity === "FATAL";

function rewoundTo({ op, p }) {
  const to = op === "EVENT" && p.type === "REWIND" ? p.data?.to_seq : null;
  return isCount(to) ? to : null;
}

// Delays

function parseSeconds(value) {
  const isValid = isText(value)
    ? /^[ \t]*[0-9]{1,12}(\.[0-9]{1,12})?[ \t]*$/.test(value)
    : isNumber(value) && value >= 0 && value < 1e12;
  return isValid ? Number(value) : null;
}

function parseDate(value) {
  // Date.parse takes "-5", too. One form has no zone.
  const isDate = /^[A-Z][a-z]{2,8},? .*\d\d:\d\d:\d\d/.test(value);
  return isDate ? Date.parse(value.replace(/\d{4}$/, "$& GMT")) : NaN;
}

function retryAfter(headers, now) {
  const value = headers.get("retry-after");
  const milliseconds = parseSeconds(headers.get("retry-after-ms"));
  const seconds = milliseconds === null ? parseSeconds(value) : milliseconds / 1000;
  if (seconds !== null) return seconds;
  // By the clock of the server.
  const wait = (parseDate(value) - (parseDate(headers.get("date")) || now())) / 1000;
  return wait >= 0 ? wait : null;
}

/** Counts losses; only a new packet refills it. */
class RetryBudget {
  #options;

  constructor(options) {
    this.#options = options;
    this.refill();
  }

  refill() {
    this.restore();
    this.losses = this.drains = 0;
  }

  restore() {
    this.failures = 0; // the delays grow on
    this.firstLoss = null;
  }

  /** Returns the delay; null after too many drains. */
  afterDrain(asked) {
    this.drains += 1;
    return this.#options.maxRetries && this.drains <= MAX_DRAINS ? this.#delay(1, asked) : null;
  }

  /** Returns the delay; null to give up. */
  afterLoss(asked, begun) {
    const { clock, maxRetries, reconnectFor } = this.#options;
    this.failures += 1;
    this.losses += 1;
    this.firstLoss ??= clock();
    const delay = this.#delay(this.losses, asked);
    if (delay === null || this.failures <= maxRetries) return delay;
    const left = reconnectFor - (clock() - this.firstLoss);
    // The last attempt is made when time is up.
    return begun && left > 0 ? Math.min(delay, Math.max(left, asked)) : null;
  }

  #delay(failures, asked) {
    const { backoff, maxRetryDelay, random } = this.#options;
    const { first, longest } = { ...DEFAULTS.backoff, ...backoff };
    const delay = Math.min(first * 2 ** (failures - 1), longest) * (1 - random() / 2);
    return asked > maxRetryDelay ? null : Math.max(delay, asked);
  }
}

// Numbers and cursor

/** Returns epoch and first number of a packet, if its id has them: decision 11. */
function epochOf(id, streamId, seq) {
  const [, own, named, begun] = /^(.*?:\d+)(?::([1-9]\d{0,15})(?::([1-9]\d{0,15}))?)?$/.exec(id) ?? [];
  const epoch = Number(named ?? 1);
  const first = Number(begun ?? (epoch === 1)); // 0 is unknown
  const isValid = own === `${streamId}:${seq}` && isCount(epoch) && !(begun && (epoch === 1 || first > seq));
  return isValid ? { epoch, first } : {};
}

class Numbering {
  #start;
  #expected;
  // All from the first on arrived, except in the gaps.
  #numbers = { first: 0, gaps: [] };
  #others = new Map();
  #resumed = false;
  #retriedGap = null;
  #rewinds;
  kept = null; // the position before a reread that has not begun
  #rereads = 0; // with nothing above the furthest
  #furthest = 0;

  constructor({ position, expected, rewinds, after = "" }) {
    this.#start = position;
    this.#expected = expected;
    this.#rewinds = rewinds;
    this.streamId = position?.streamId ?? null;
    this.seq = position?.seq ?? -1;
    this.lastEventId = position?.lastEventId ?? after;
  }

  get position() {
    const { streamId, seq, lastEventId } = this;
    return this.kept ?? (streamId && { streamId, seq, lastEventId: lastEventId || null });
  }

  /** The last SSE id if a header can carry it, else the stream. */
  get cursor() {
    const id = this.lastEventId;
    const carried = id && id === id.trim() && !/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u.test(id);
    return carried ? id : this.streamId;
  }

  get isAtStart() {
    return this.#start ? this.seq === this.#start.seq : this.#expected && !this.streamId;
  }

  connect() {
    this.#resumed = this.streamId !== null;
  }

  /** A reconnect may only bring streams that were seen before. */
  switchStream(streamId, seq) {
    const known = this.#others.get(streamId);
    const required = this.streamId ? this.#resumed && this.streamId : this.#expected;
    if (!known && required && required !== streamId) {
      throw new CAPStreamReset(required, streamId, this.position);
    }
    this.#others.set(this.streamId, [this.seq, this.#numbers]);
    this.streamId = streamId;
    [this.seq, this.#numbers] = known ?? [seq - 1, { first: seq, gaps: [] }];
  }

  /** Whether it is of the same run as the last one. */
  follows(seq, id) {
    const { epoch, first } = epochOf(id, this.streamId, seq);
    const last = epochOf(this.lastEventId, this.streamId, this.seq).epoch;
    return !(epoch && first && last) || epoch === last || (this.seq < seq && first === seq);
  }

  /** Whether it can be; the position stays until a packet. */
  startOver() {
    if (this.seq > this.#furthest) [this.#furthest, this.#rereads] = [this.seq, 0];
    if (!this.#rewinds || this.seq < 1 || this.#rereads === MAX_REREADS) return false;
    this.#rereads += 1;
    this.kept = this.position;
    this.#start = null;
    this.#others.clear();
    this.seq = -1;
    this.lastEventId = "";
    return true;
  }

  beginAgain(seq) {
    this.kept = null;
    [this.seq, this.#numbers] = [seq - 1, { first: seq, gaps: [] }];
  }

  skipTo(seq) {
    this.#numbers.gaps.push({ after: this.seq, before: seq });
  }

  hasArrived(seq) {
    const { first, gaps } = this.#numbers;
    let low = 0;
    for (let high = gaps.length; low < high;) {
      const middle = (low + high) >> 1;
      if (gaps[middle].before > seq) high = middle;
      else low = middle + 1;
    }
    return seq >= first && !(gaps[low]?.after < seq);
  }

  isNewGap() {
    const before = this.#retriedGap;
    this.#retriedGap = `${this.streamId}:${this.seq}`;
    return before !== this.#retriedGap;
  }
}

// The resume machine

export class ResumeMachine {
  #attempt;
  #options;
  #numbering;
  #budget;
  #decoder;
  #state = "idle"; // open, reading, finished
  #planned = null; // a wait or a redirect
  #request;
  #redirects;
  #retryMs = 0;
  #expires = null;
  #gapsAreLegal = false;

  constructor(attempt, options = {}) {
    this.#attempt = attempt;
    this.#options = { redact: (text) => text, attempts: 0, ...DEFAULTS, ...options };
    this.#numbering = new Numbering(options);
    this.#budget = new RetryBudget(this.#options);
    this.attempts = this.#options.attempts;
  }

  get position() {
    return this.#numbering.position;
  }

  get complete() {
    return this.#state === "finished";
  }

  get reading() {
    return this.#state === "reading";
  }

  get timeLeft() {
    return (this.#expires ?? Infinity) - this.#options.clock();
  }

  trace(type, fields) {
    const { clock, onTrace } = this.#options;
    onTrace({ type, at: clock(), connection: this.attempts, ...fields });
  }

  nextStep() {
    const planned = this.#planned;
    this.#planned = null;
    if (this.complete) return null;
    if (planned?.wait !== undefined) return planned;
    this.#request = planned ?? this.#newAttempt();
    this.#expires ??= this.#options.clock() + this.#options.deadline;
    this.#state = "open";
    return this.#request;
  }

  #newAttempt() {
    const { cursor, lastEventId } = this.#numbering;
    this.#numbering.connect();
    this.#decoder = new SSEDecoder(this.#options.maxEventBytes, lastEventId);
    this.#redirects = 0;
    this.attempts += 1;
    this.trace("connect", { cursor });
    return this.#attempt(cursor);
  }

  accepts({ status, headers }) {
    if (isRedirect({ status, headers })) return false;
    const ids = { requestId: headers.get("x-request-id"), streamId: headers.get("x-stream-id") };
    this.trace("open", { status, ...ids });
    if (status !== 200 || contentType(headers) !== EVENT_STREAM) return false;
    this.#state = "reading";
    if (isText(this.#options.after)) this.#budget.restore();
    return true;
  }

  refused(head, body) {
    const { status, headers } = head;
    const details = { statusCode: status, headers, body };
    let message = `${this.#described()} was answered with ${describeResponse(head, body)}`;
    if (isRedirect(head)) {
      try {
        this.#redirects += 1;
        this.#planned = redirected(this.#request, headers.get("location"), this.#redirects);
        this.#state = "idle";
        return;
      } catch (error) {
        message += `, a redirect that is not followed: ${error.message}`;
      }
    }
    details.retryAfter = retryAfter(headers, this.#options.now);
    const { unary, after } = this.#options;
    const outcome = status === 204 && headers.get("x-stream-outcome");
    if (!unary && outcome && outcome !== "complete") {
      const error = { code: outcome, message: "the stream has ended with this error", severity: "FATAL" };
      this.#handleError(error, details);
    }
    const { isAtStart, seq } = this.#numbering;
    const isDone = unary
      ? status >= 200 && status < 300
      : status === 204 && (isAtStart || (outcome && seq >= 0)); // nothing follows
    if (isDone) {
      this.#state = "finished";
    } else if (status === 410 && parsed(body)?.type === POSITION_GONE && this.#startOver(message)) {
      return;
    } else if (isCutOff(head, body) || ((this.attempts > 1 || after) && RETRIED_STATUSES.includes(status))) {
      this.#countLoss(message, details);
    } else {
      throw this.#error(status === 200 ? CAPProtocolError : CAPRuntimeError, message, details);
    }
  }

  lost(failure) {
    if (failure?.final) {
      const message = `${this.#described()} failed: ${failure.message}`;
      throw this.#error(CAPConnectionError, message, failure);
    }
    if (this.#state === "idle" || this.complete) return;
    const why = failure?.message ?? "the response ended before a CLOSE packet";
    this.#countLoss(why, failure ?? {}, !failure);
  }

  /** Yields the new packets; the position moves as each is handed out. */
  *receive(chunk) {
    const numbering = this.#numbering;
    const decoder = this.#decoder;
    let last = decoder.lastEventId;
    try {
      for (const { data, valid, ...fields } of decoder.events(chunk)) {
        last = fields.id;
        const packet = this.#parse(data, valid);
        const streamId = packet.stream_id.toLowerCase();
        if (streamId !== numbering.streamId) numbering.switchStream(streamId, packet.seq);
        if (numbering.kept) {
          this.trace("rewind", { from: this.position.seq, to: 0 });
          numbering.beginAgain(packet.seq);
          yield { ...packet, seq: 0, op: "EVENT", p: { type: "REWIND", data: { to_seq: 0 } } };
        }
        if (packet.seq > numbering.seq + 1 && !this.#acceptGap(packet)) return;
        const isEnd = packet.op === "CLOSE" || isFatal(packet);
        if ((packet.seq > numbering.seq || isEnd) && this.#isOtherRun(packet, last)) return;
        if (packet.seq > numbering.seq) {
          numbering.seq = packet.seq;
          numbering.lastEventId = last;
        } else if (!isEnd) {
          this.#checkArrived(packet);
          const { bytes, id } = fields;
          this.trace("duplicate", { packet, bytes, id });
          continue;
        }
        this.trace("packet", { packet, ...fields });
        if (this.#handle(packet)) yield packet;
        if (!this.reading) return;
      }
    } catch (error) {
      if (!(error instanceof SSEEventTooLarge)) throw error;
      throw this.#error(CAPProtocolError, error.message, { cause: error });
    }
    // A block without data.
    if (decoder.lastEventId !== last) numbering.lastEventId = decoder.lastEventId;
    if (this.timeLeft <= 0) throw this.#expired("the answer was not complete");
  }

  #parse(data, valid) {
    let why = valid ? "" : "it is not UTF-8";
    let packet;
    try {
      packet = JSON.parse(data);
      why ||= problemOf(packet, PACKET_FIELDS);
    } catch {
      why ||= "it is not JSON"; // the parser would quote it
    }
    if (why) throw this.#error(CAPProtocolError, `the next packet is not valid: ${why}`);
    return packet;
  }

  #isOtherRun(packet, id) {
    const { streamId } = this.#numbering;
    const isVoid = this.#options.textOnly && rewoundTo(packet) !== null;
    // A fatal error counts in any run.
    if (isFatal(packet) || (!isVoid && this.#numbering.follows(packet.seq, id))) return false;
    const reset = new CAPStreamReset(streamId, streamId, this.position);
    if (!this.#startOver(reset.message)) throw reset;
    return true;
  }

  #startOver(why) {
    if (!this.#numbering.startOver()) return false;
    this.trace("cut", { reason: this.#options.redact(why), error: null });
    this.#state = "idle";
    return true;
  }

  #checkArrived({ seq, stream_id }) {
    if (this.#numbering.hasArrived(seq)) return;
    const late = `seq ${seq} came after seq ${this.#numbering.seq} of stream ${stream_id}`;
    throw this.#error(CAPProtocolError, `${late}: the server sends packets out of order`);
  }

  /** A gap causes one reconnect; if it is still there, it is legal. */
  #acceptGap({ seq, stream_id }) {
    const numbering = this.#numbering;
    this.trace("gap", { expected: numbering.seq + 1, received: seq });
    if (!this.#gapsAreLegal) {
      const missing = `seq ${seq} came after seq ${numbering.seq} of stream ${stream_id}`;
      if (numbering.isNewGap()) {
        this.#countLoss(missing);
        return false;
      }
      if (this.#options.strictSequence) {
        throw this.#error(CAPProtocolError, `${missing}, also after a reconnect`);
      }
      this.#gapsAreLegal = true;
    }
    numbering.skipTo(seq);
    return true;
  }

  #handle(packet) {
    if (packet.op === "ERROR") return this.#handleError(packet.p);
    if (packet.op === "CLOSE") {
      this.#state = "finished";
      return true;
    }
    const to = rewoundTo(packet);
    if (to !== null) this.trace("rewind", { from: packet.seq, to });
    this.#budget.refill();
    return true;
  }

  #handleError(error, response) {
    const { code, message, severity, details } = error;
    const text = `${code}: ${message}`;
    const retryAfter = parseSeconds(details?.retry_after);
    const fields = { ...response, streamError: error, retryAfter };
    if (severity === "FATAL") throw this.#error(CAPRuntimeError, text, fields);
    if (severity === "TRANSIENT") this.#countLoss(text, fields);
    else this.trace("warning", { error });
    return this.reading;
  }

  #countLoss(why, details = {}, endedCleanly = false) {
    const { retryMs } = this.#decoder;
    const { redact, maxRetryDelay } = this.#options;
    this.trace("cut", { reason: redact(why), error: details.streamError ?? details.cause ?? null });
    this.#state = "idle";
    this.#retryMs = retryMs ?? this.#retryMs;
    const asked = Math.max((details.retryAfter ?? 0) * 1000, this.#retryMs);
    // The server drains.
    let delay = endedCleanly && retryMs !== null ? this.#budget.afterDrain(asked) : null;
    delay ??= this.#budget.afterLoss(asked, this.#numbering.cursor !== null);
    // A timer may fire early.
    if (this.timeLeft <= (delay || 10)) throw this.#expired(why, details);
    const attempt = this.#budget.failures;
    if (delay === null) {
      const reason = asked > maxRetryDelay
        ? `the server asks to wait ${asked / 1000} s, more than maxRetryDelay`
        : `${attempt} connections without a new packet`;
      const message = `${this.#described()} failed: ${reason}; the last one: ${why}`;
      const fields = { ...details, retryAfter: asked ? asked / 1000 : null };
      throw this.#error(CAPConnectionError, message, fields);
    }
    this.trace("wait", { seconds: delay / 1000, attempt });
    this.#planned = { wait: delay, atLeast: asked };
  }

  endedEarly(why) {
    return this.#error(CAPConnectionError, `${why}; resume() continues it`);
  }

  #expired(why, details) {
    const limit = `the deadline of ${this.#options.deadline / 1000} s`;
    return this.#error(CAPTimeoutError, `${this.#described()} passed ${limit}: ${why}`, details);
  }

  #error(Kind, message, { final, message: _, ...details } = {}) {
    this.#state = "idle";
    const { position } = this;
    const where = position ? ` (read up to seq ${position.seq} of stream ${position.streamId})` : "";
    return new Kind(this.#options.redact(message) + where, {
      position,
      attempts: this.#budget.failures,
      method: this.#request?.method ?? null,
      url: this.#request ? withoutQuery(this.#request.url) : null,
      ...details,
    });
  }

  #described() {
    return `${this.#request.method} ${withoutQuery(this.#request.url)}`;
  }
}

const contentType = (headers) =>
  (headers.get("content-type") ?? "").split(";")[0].trim().toLowerCase();

/** To Chromium, what arrived of a head is whole: its status may be 20. */
const isCutOff = ({ status, headers }, body) =>
  status <= 200 && !body && EVENT_STREAM.startsWith(contentType(headers));

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

function describeResponse({ status, headers }, body) {
  const what = status === 200
    ? `a response of type ${contentType(headers) || "unknown"}, not ${EVENT_STREAM}`
    : `HTTP ${status}`;
  const problem = parsed(body);
  const error = problem?.error;
  const named = [error, problem].flatMap((part) => [part?.detail, part?.message, part?.title]);
  const found = [error, ...named].find((text) => isText(text) && text);
  return found ? `${what}: ${found.slice(0, 500)}` : what;
}

function withoutQuery(url) {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}

const isRedirect = ({ status, headers }) => [307, 308].includes(status) && headers.has("location");

/** Returns the next request; another origin gets no credentials. */
function redirected(request, location, count) {
  if (count > MAX_REDIRECTS) throw new Error(`more than ${MAX_REDIRECTS} in a row`);
  const { href: url, origin, protocol } = new URL(location, request.url);
  if (!/^https?:$/.test(protocol)) throw new Error("not an http or https address");
  if (origin === new URL(request.url).origin) return { ...request, url };
  const safe = Object.entries(request.headers)
    .filter(([name]) => SAFE_HEADERS.includes(name.toLowerCase()));
  return { ...request, url, headers: Object.fromEntries(safe), bare: true };
}

// The shell: fetch, timers and signals

const TIMED_OUT = new Error("nothing more arrived in time");

class Sender {
  #options;
  #key = "";

  constructor(options) {
    this.#options = options;
  }

  async open(request, signal, limit, retried) {
    signal.throwIfAborted();
    const controller = new AbortController();
    let fail;
    let timer;
    const end = (reason) => {
      clearTimeout(timer);
      fail?.(reason);
      controller.abort(reason);
    };
    const ended = { signal: controller.signal };
    signal.addEventListener("abort", () => end(signal.reason), ended);
    const connection = {
      release: () => end(),
      bounded: (promise) =>
        new Promise((resolve, reject) => {
          fail = reject;
          // A timer has 31 bits.
          const own = setTimeout(end, Math.min(limit(), 2 ** 31 - 1), TIMED_OUT);
          timer = own;
          promise.then(resolve, reject).finally(() => clearTimeout(own));
        }),
    };
    let headers;
    try {
      headers = await connection.bounded(this.#headers(request));
      connection.response = await connection.bounded(this.#fetch(request, headers, ended));
    } catch (error) {
      connection.release();
      connection.failure = failureOf(error, signal);
      // A later getKey may have no network.
      if (!headers && !retried && error !== TIMED_OUT) throw error;
    }
    return connection;
  }

  async #headers(request) {
    const headers = new Headers();
    for (const [name, value] of Object.entries(request.headers)) headers.set(name, asBytes(value));
    if (request.bare) return headers;
    const { key, getKey } = this.#options;
    this.#key = (getKey ? await getKey() : key) ?? "";
    if (!/^[\x21-\x7e]*$/.test(this.#key)) {
      throw new TypeError("the key must be visible ASCII characters without spaces");
    }
    if (this.#key) headers.set("Authorization", `Bearer ${this.#key}`);
    return headers;
  }

  async #fetch({ method, url, body, bare }, headers, ended) {
    const { fetch } = this.#options;
    // "no-store" needs no CORS preflight.
    const common = { ...ended, cache: "no-store", credentials: bare ? "omit" : "same-origin" };
    const response = await fetch(url, { ...common, method, headers, body, redirect: "manual" });
    if (response.type !== "opaqueredirect") return response;
    // A browser hides the target of what carries something.
    const found = await fetch(url, { ...common, credentials: "omit" }).catch(() => null);
    const location = found?.redirected ? { location: found.url } : {};
    return { status: 307, headers: new Headers(location), body: null };
  }

  /** Removes the key and the caller's headers from a text. */
  redact(text, headers) {
    for (const secret of [this.#key, ...Object.values(headers)]) {
      if (secret.length < 6) continue;
      for (const form of [secret, encodeURIComponent(secret), btoa(asBytes(secret))]) {
        text = text.replaceAll(form, "***");
      }
    }
    return text;
  }
}

/** Returns a text as a header takes it. */
const asBytes = (text) => String.fromCharCode(...new TextEncoder().encode(text));

function failureOf(error, signal) {
  signal.throwIfAborted();
  const { code, message: why } = error.cause ?? {};
  // A browser does not tell.
  const final = /^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_TLS_CERT)/.test(code);
  return { message: why ? `${error.message} (${why})` : error.message, final, cause: error };
}

async function readText({ response, bounded }) {
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  try {
    const reader = response.body?.getReader();
    while (reader && size < MAX_BODY_BYTES) {
      const { done, value } = await bounded(reader.read());
      if (done) break;
      text += decoder.decode(value.subarray(0, MAX_BODY_BYTES - size), { stream: true });
      size += value.length;
    }
  } catch {} // the status says enough
  return text;
}

/** A page that is visible or online again waits only for `atLeast`. */
async function sleep(wait, atLeast, signal) {
  const { document } = globalThis;
  const listening = new AbortController();
  const on = (target, type, listener) =>
    target?.addEventListener?.(type, listener, { signal: listening.signal });
  const begun = performance.now();
  let timer;
  try {
    await new Promise((resolve, reject) => {
      const until = (end) => {
        clearTimeout(timer);
        timer = setTimeout(resolve, begun + end - performance.now());
      };
      const wake = () => document?.visibilityState !== "hidden" && until(atLeast);
      on(globalThis, "online", wake);
      on(document, "visibilitychange", wake);
      on(signal, "abort", () => reject(signal.reason));
      signal?.throwIfAborted();
      until(wait);
    });
  } finally {
    clearTimeout(timer);
    listening.abort();
  }
}

export class PacketStream {
  #call;
  #machine;
  #packets;
  #headerStreamId = null;
  #leaving = new AbortController();

  constructor(call) {
    this.#call = call;
    this.request = call.request;
    this.#begin(call.position, 0);
  }

  #begin(position, attempts) {
    this.status = "connecting";
    this.#machine = this.#call.machine({ position, attempts });
    this.#packets = this.#run();
  }

  get position() {
    return this.#machine.position;
  }

  get streamId() {
    return this.position?.streamId ?? this.#headerStreamId;
  }

  get complete() {
    return this.#machine.complete;
  }

  get reconnects() {
    return Math.max(this.#machine.attempts - 1, 0);
  }

  async cancel() {
    await this.#call.cancel(idOf(this));
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async next() {
    const result = await this.#packets.next();
    if (result.done && !this.complete) throw this.#endedEarly();
    return result;
  }

  #endedEarly() {
    return this.#machine.endedEarly(`the stream ended early (${this.status})`);
  }

  async return(value) {
    if (this.complete) await this.#packets.next(); // left at its end
    this.#end("left");
    if (!this.complete) this.#leaving.abort(this.#endedEarly()); // a next() that waits
    await this.#packets.return();
    return { done: true, value };
  }

  async _restart() {
    const { streamId } = this;
    await this.#packets.return();
    this.#begin({ streamId, seq: 0, lastEventId: streamId }, this.#machine.attempts);
  }

  #end(status, outcome = status) {
    if (["done", "failed", "left"].includes(this.status)) return;
    this.status = status;
    this.#machine.trace("end", { outcome });
  }

  async *#run() {
    const { signal: given, sleep, storage } = this.#call;
    const { signal } = this.#leaving;
    const leave = () => this.#leaving.abort(given.reason);
    given?.addEventListener("abort", leave);
    const machine = this.#machine;
    try {
      if (given?.aborted) leave();
      signal.throwIfAborted();
      await storage?.save(this.position, this.request);
      for (let step = machine.nextStep(); step; step = machine.nextStep()) {
        this.status = step.wait === undefined ? "connecting" : "waiting";
        if (step.wait === undefined) yield* this.#connect(step);
        else await sleep(step.wait, step.atLeast, signal);
      }
      await storage?.clear();
      this.#end("done", "close");
    } catch (error) {
      const fatal = error?.streamError?.severity === "FATAL";
      if (signal.aborted) this.#end("left");
      else this.#end("failed", fatal ? "fatal" : "error");
      if (fatal) await storage?.clear();
      throw error;
    } finally {
      given?.removeEventListener("abort", leave);
    }
  }

  async *#connect(request) {
    const machine = this.#machine;
    const { sender, storage, timeout } = this.#call;
    const { signal } = this.#leaving;
    const limit = () => Math.min(timeout, machine.timeLeft);
    const connection = await sender.open(request, signal, limit, this.reconnects > 0);
    const { response, bounded } = connection;
    let { failure = null } = connection;
    try {
      if (response && !machine.accepts(response)) {
        machine.refused(response, await readText(connection));
        return;
      }
      if (response) this.status = "open";
      this.#headerStreamId = response?.headers.get("x-stream-id") ?? this.#headerStreamId;
      const reader = response?.body.getReader();
      while (machine.reading) {
        const { done, value, lost } = await bounded(reader.read())
          .catch((error) => ({ done: true, lost: failureOf(error, signal) }));
        failure = lost ?? null;
        if (done) break;
        for (const packet of machine.receive(value)) {
          if (storage) await storage.save(this.position, this.request);
          yield packet;
          if (machine.reading) signal.throwIfAborted();
        }
      }
    } finally {
      connection.release();
    }
    machine.lost(failure);
  }
}

export class ChatStream extends PacketStream {
  #start;
  #again = false;
  #whole = false;
  #kept = []; // {seq, text} or {seq, event}

  constructor(call) {
    super(call);
    this.#start = this.position?.seq ?? 0;
  }

  get sessionId() {
    return this.request.context.session_id;
  }

  get text() {
    return this.#kept.map(({ text }) => text ?? "").join("");
  }

  get events() {
    return this.#kept.flatMap(({ event }) => event ?? []);
  }

  async next() {
    for (;;) {
      const result = await super.next();
      if (result.done) return result;
      const value = this.#pieceOf(result.value);
      if (value?.whole && this.#again) await this._restart();
      if (value !== null) return { done: false, value };
    }
  }

  #pieceOf(packet) {
    const { op, p, seq } = packet;
    const to = rewoundTo(packet);
    if (to !== null) return this.#rewind(to, !seq);
    if (op === "DELTA") this.#kept.push({ seq, text: p });
    if (op === "EVENT") this.#kept.push({ seq, event: p });
    return op === "DELTA" ? p : null;
  }

  /** Drops what became void; all if it begins before a resume. */
  #rewind(to, startsOver) {
    this.#again = !startsOver && to < this.#start;
    if (startsOver || this.#again) {
      this.#start = to = 0;
      this.#whole = true;
    }
    this.#kept = this.#kept.filter(({ seq }) => seq <= to);
    return { text: this.text, toSeq: to, whole: this.#whole };
  }
}

// The client

const EVENT_TYPES = [
  "THOUGHT_TRACE", "CITATION_BLOCK", "PROGRESS_INDICATOR", "MEDIA_CAROUSEL", "MARKDOWN_BLOCK",
  "REWIND",
];

function withDefaults(defaults, options) {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(given) };
}

export class CAPClient {
  #options;
  #sender;

  constructor(url, options = {}) {
    // A given maxRetries is exact.
    const reconnectFor = options.maxRetries === undefined ? 30_000 : 0;
    this.#options = withDefaults({ ...DEFAULTS, reconnectFor }, options);
    this.url = baseURL(url);
    this.#sender = new Sender(this.#options);
  }

  chat(message, options = {}) {
    return this.resumeChat(this.chatRequest(message, options), null, options);
  }

  resumeChat(request, position, options) {
    const rewinds = request.payload?.capabilities?.supported_events?.includes("REWIND");
    return this.#stream(ChatStream, { request, position }, { ...options, rewinds, textOnly: !rewinds });
  }

  assist(request, options) {
    return this.resume(request, null, options);
  }

  resume(request, position, options) {
    return this.#stream(PacketStream, { request, position }, options);
  }

  follow(streamId, { position, ...options } = {}) {
    return this.#stream(PacketStream, { streamId, position }, options);
  }

  async *followConversation(conversation, { position, ...options } = {}) {
    for (let after = position; ; ) {
      const answer = this.#stream(PacketStream, { conversation, after }, options);
      yield answer;
      after = answer.position ?? after;
    }
  }

  cancel(streamId, options) {
    return this.#call({ method: "DELETE", streamId }, options);
  }

  async send(stream, text, { messageId: id = uuid4(), ...options } = {}) {
    if (!isText(text)) throw new TypeError("the message must be a string");
    const streamId = isObject(stream) ? idOf(stream) : stream;
    const body = JSON.stringify({ id, text });
    await this.#call({ method: "POST", streamId, path: "/messages", body }, options);
  }

  async #call(target, options) {
    const call = { ...options, unary: true, storage: null, onTrace() {} };
    await this.#stream(PacketStream, target, call).next();
  }

  chatRequest(message, { sessionId = uuid4(), userId = this.#options.userId, rewinds } = {}) {
    if (!isText(message)) throw new TypeError("the message must be a string");
    return {
      request_id: uuid4(),
      context: { session_id: sessionId, user_id: userId },
      payload: {
        request_id: uuid4(),
        session_id: sessionId,
        messages: [{ role: "user", parts: [{ type: "text", content: message }] }],
        ...(rewinds && { capabilities: { supported_events: EVENT_TYPES } }),
      },
    };
  }

  #stream(Kind, target, options = {}) {
    const { request: given, position: from, conversation, after, streamId, path = "", ...sent } = target;
    const settings = withDefaults(this.#options, options);
    checkNumbers(settings);
    const position = from ? readPosition(from, streamId) : null;
    const id = streamId ?? position?.streamId;
    if (!given && !conversation && !isId(id)) throw new TypeError("streamId must be a UUID");
    const request = given ? { request_id: uuid4(), ...given } : null;
    const own = { ...this.#options.headers, ...settings.headers };
    const headers = { ...own, Accept: EVENT_STREAM };
    let first = { method: "GET", url: `${this.url}/streams/${id}${path}`, headers, ...sent };
    if (request) {
      headers["X-Request-ID"] = request.request_id;
      const body = JSON.stringify(request);
      first = { method: "POST", url: `${this.url}/assist`, headers, body };
    }
    if (conversation) {
      const name = conversation.split("/").map(encodeURIComponent).join("/");
      first.url = `${this.url}/conversations/${name}/events`;
      const before = after && readPosition(after);
      settings.after = before ? before.lastEventId ?? `${before.streamId}:${before.seq}` : "";
    }
    if (first.body) headers["Content-Type"] = "application/json";
    const attempt = (cursor) =>
      cursor ? { ...first, headers: { ...headers, "Last-Event-ID": cursor } } : first;
    const redact = (text) => this.#sender.redact(text, own);
    const expected = id && !request ? id.toLowerCase() : null;
    return new Kind({
      ...settings,
      request,
      position,
      sender: this.#sender,
      cancel: (stream) => this.cancel(stream, { headers: own }),
      machine: (start) => new ResumeMachine(attempt, { ...settings, redact, expected, ...start }),
    });
  }
}

function idOf({ streamId }) {
  if (!streamId) throw new CAPError("the stream has no id before its first response");
  return streamId;
}

/** Also one of the Python client. */
function readPosition({ streamId, stream_id, seq, lastEventId, cursor }, known) {
  const id = streamId ?? stream_id ?? known;
  if (!isId(id) || !isCount(seq)) throw new TypeError("position must have streamId and seq");
  return { streamId: id.toLowerCase(), seq, lastEventId: lastEventId ?? cursor ?? null };
}

function checkNumbers(settings) {
  for (const [name, value] of Object.entries(DEFAULTS)) {
    const given = settings[name];
    if (!isNumber(value) || (isNumber(given) && given >= 0)) continue;
    throw new RangeError(`${name} must be a number of at least 0, got ${given}`);
  }
}

function baseURL(url) {
  // In a page the address may be relative to it.
  const { href, protocol, username, search, hash } = new URL(url, globalThis.document?.baseURI ?? "none:/");
  if (!/^https?:$/.test(protocol) || username || search || hash) {
    throw new TypeError("url must be an http or https address without user, query and fragment");
  }
  return href.replace(/\/+$/, "").replace(/\/assist$/, "");
}

function uuid4() {
  // A page without https has no randomUUID.
  const bytes = crypto.getRandomValues(new Uint8Array(15));
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{3})(.{3})/, "$1-$2-4$3-8$4-");
}

export function sessionPosition(name = "coreason", given) {
  const keys = [`${name}:request`, `${name}:position`];
  let written; // once, unlike the position
  // It may be full or forbidden.
  const tried = (use) => {
    try {
      return use(given ?? sessionStorage);
    } catch {
      return null;
    }
  };
  return {
    load: () => tried((store) => {
      const [request, position] = keys.map((key) => JSON.parse(store.getItem(key)));
      return request || position ? { request, position } : null;
    }),
    save: (position, request) => tried((store) => {
      if (written !== request) store.setItem(keys[0], JSON.stringify(request));
      written = request;
      store.setItem(keys[1], JSON.stringify(position));
    }),
    clear: () => tried((store) => {
      written = undefined;
      for (const key of keys) store.removeItem(key);
    }),
  };
}
