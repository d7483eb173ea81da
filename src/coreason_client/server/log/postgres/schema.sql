-- The tables and functions of the log, version 1. "{schema}" is replaced by the name of the schema.
--
-- Each operation of the log is one call of a function: one statement, one transaction, one round
-- trip. A function that decides locks the row of the stream first, and reads what it decides on
-- afterwards: in READ COMMITTED each statement of a function sees what was committed before it.
-- A process that stops in the middle of an operation therefore never holds a lock.
--
-- Nothing that changes with each append is a column of `streams`: the number of the last entry
-- follows from `runs`. An update for each append would leave a dead row each time, and a backup
-- that holds an old snapshot would make the appends slower and slower.
--
-- Text of users is stored as bytes, because a database need not be able to hold all of it. What is
-- found by such a text has a digest of it as its key, because an index cannot hold long ones.

CREATE TABLE {schema}.schema_version (
  version int NOT NULL,
  oldest int NOT NULL  -- the oldest version whose processes can still use the tables
);
INSERT INTO {schema}.schema_version VALUES (1, 1);

CREATE TABLE {schema}.serving (  -- one row: the server of the latest claim, and since when
  one int PRIMARY KEY,
  server text NOT NULL,
  since float8 NOT NULL
);

CREATE TABLE {schema}.streams (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  stream_id uuid NOT NULL UNIQUE,
  request bytea NOT NULL UNIQUE,  -- digest of the principal and the request_id
  principal bytea NOT NULL,
  request_id uuid NOT NULL,
  fingerprint bytea NOT NULL,
  opening uuid NOT NULL,  -- unique name of the call that opened it
  opened_at float8 NOT NULL,
  epoch bigint NOT NULL DEFAULT 1,
  epochs bigint[] NOT NULL DEFAULT '{}',  -- of each later epoch its first number, and its own
  claim uuid,  -- unique name of the call that began the current epoch
  claimed_seq bigint NOT NULL DEFAULT 0,  -- the last entry when the current epoch began
  claimed_note int NOT NULL DEFAULT 0,
  released bigint,  -- the epoch that gave the stream up
  cancel_requested boolean NOT NULL DEFAULT false,
  agent_id bytea,
  version bytea,
  last_seq bigint,  -- of a stream that has ended
  outcome bytea,
  ended_at float8,
  body smallint NOT NULL DEFAULT 0  -- 0 kept, 1 being dropped, 2 dropped
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX streams_claim ON {schema}.streams (claim) WHERE claim IS NOT NULL;
CREATE INDEX streams_kept ON {schema}.streams (ended_at) WHERE ended_at IS NOT NULL AND body = 0;
CREATE INDEX streams_dropping ON {schema}.streams (n) WHERE body = 1;
CREATE INDEX streams_dropped ON {schema}.streams (ended_at) WHERE body = 2;

CREATE TABLE {schema}.leases (  -- of running streams, one each
  n bigint NOT NULL,
  epoch bigint NOT NULL,
  until float8 NOT NULL,
  agent_id bytea,
  version bytea
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
-- Not unique by `n`: while a snapshot is held, each renewal would visit all earlier rows of a stream.
CREATE INDEX leases_latest ON {schema}.leases (n, until DESC);
CREATE INDEX leases_until ON {schema}.leases (until);

CREATE TABLE {schema}.runs (  -- of entries; the format is that of the SQLite log
  n bigint NOT NULL,
  last_seq bigint NOT NULL,
  first_seq bigint NOT NULL,
  run bytea NOT NULL,
  PRIMARY KEY (n, last_seq)
) WITH (toast_tuple_target = 4080, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE {schema}.runs ALTER run SET STORAGE EXTERNAL;

CREATE TABLE {schema}.notes (  -- of the journals of running streams
  n bigint NOT NULL,
  number int NOT NULL,
  note bytea NOT NULL,
  PRIMARY KEY (n, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE {schema}.questions (
  n bigint PRIMARY KEY,
  question bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE {schema}.conversations (
  conversation bytea PRIMARY KEY,  -- digest of the principal and the session
  touched float8 NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX conversations_touched ON {schema}.conversations (touched);

CREATE TABLE {schema}.turns (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  conversation bytea NOT NULL,
  stream_id uuid NOT NULL,
  epoch bigint NOT NULL,
  turn bytea NOT NULL,
  UNIQUE (conversation, stream_id)
);
CREATE INDEX turns_order ON {schema}.turns (conversation, id);

CREATE TABLE {schema}.tasks (
  task_id uuid PRIMARY KEY,
  owner bytea NOT NULL,  -- digest of the principal
  principal bytea NOT NULL,
  context_id bytea NOT NULL,
  state bytea NOT NULL,
  changed float8 NOT NULL,
  data bytea NOT NULL,
  open boolean NOT NULL,
  version int NOT NULL,
  revisions text[] NOT NULL  -- newest first
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX tasks_owner ON {schema}.tasks (owner, changed, task_id);
CREATE INDEX tasks_changed ON {schema}.tasks (open, changed);

CREATE TABLE {schema}.task_values (
  task_id uuid NOT NULL,
  name bytea NOT NULL,
  value bytea NOT NULL,
  PRIMARY KEY (task_id, name)
);

CREATE TABLE {schema}.deliveries (
  task_id uuid NOT NULL,
  key bytea NOT NULL,  -- digest of the name
  name bytea NOT NULL,
  data bytea NOT NULL,
  progress bytea NOT NULL,
  due float8,
  revision text NOT NULL,
  PRIMARY KEY (task_id, key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX deliveries_due ON {schema}.deliveries (due) WHERE due IS NOT NULL;

-- Each process repeats its reservations, and a lost bucket is a full one: both may be lost.
CREATE UNLOGGED TABLE {schema}.reservations (
  principal bytea NOT NULL,
  owner text NOT NULL,
  streams int NOT NULL,
  readers int NOT NULL,
  until float8 NOT NULL,
  PRIMARY KEY (principal, owner)
) WITH (fillfactor = 50);
CREATE INDEX reservations_until ON {schema}.reservations (until);

CREATE UNLOGGED TABLE {schema}.buckets (
  principal bytea PRIMARY KEY,
  full_at bigint NOT NULL  -- microseconds since 1970
) WITH (fillfactor = 50);
CREATE INDEX buckets_full_at ON {schema}.buckets (full_at);

-- The description of a stream.
CREATE VIEW {schema}.described AS
  SELECT s.stream_id, s.principal, s.request_id, s.fingerprint, s.epoch,
    coalesce(s.last_seq, (SELECT max(r.last_seq) FROM {schema}.runs r WHERE r.n = s.n), 0)
      AS last_seq,
    s.opened_at, s.outcome, s.ended_at, s.cancel_requested, s.body > 0 AS body_gone, s.agent_id,
    s.version, s.epochs, s.opening, s.request
  FROM {schema}.streams s;

-- Time and place.

CREATE FUNCTION {schema}.moment(given float8) RETURNS float8 LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(given, extract(epoch FROM clock_timestamp())::float8)
$$;

-- Different after a restart and on another server.
CREATE FUNCTION {schema}.server() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT extract(epoch FROM pg_postmaster_start_time())::text
$$;
INSERT INTO {schema}.serving VALUES (1, {schema}.server(), 0);

-- A pooler may have connected us to a standby, which may lag behind.
CREATE FUNCTION {schema}.check_primary() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE read_only_sql_transaction USING MESSAGE = 'the server is a standby';
  END IF;
END $$;

-- Streams.

-- Return the stream of a request. `p_opening` is the unique name of the call: a repetition finds
-- its own stream. A request whose stream is `p_replaces` counts as unknown.
CREATE FUNCTION {schema}.open(
  given float8, lease float8, p_id uuid, p_request bytea, p_principal bytea, p_request_id uuid,
  p_fingerprint bytea, p_opening uuid, p_agent bytea, p_version bytea, p_question bytea,
  p_replaces uuid
) RETURNS SETOF {schema}.described LANGUAGE plpgsql {settings} AS $$
DECLARE
  number bigint;
  now_ float8;
BEGIN
  IF p_replaces IS NOT NULL THEN  -- no request has the digest that is the id of a stream
    UPDATE {schema}.streams SET request = uuid_send(stream_id)
      WHERE stream_id = p_replaces AND request = p_request AND p_replaces <> p_id;
  END IF;
  FOR attempt IN 1..10 LOOP  -- the known stream may expire between the two statements
    now_ := {schema}.moment(given);
    INSERT INTO {schema}.streams (stream_id, request, principal, request_id, fingerprint, opening,
        opened_at, agent_id, version)
      VALUES (p_id, p_request, p_principal, p_request_id, p_fingerprint, p_opening, now_, p_agent,
        p_version)
      ON CONFLICT DO NOTHING RETURNING n INTO number;
    IF FOUND THEN
      INSERT INTO {schema}.leases VALUES (number, 1, now_ + lease, p_agent, p_version);
      IF p_question <> '' THEN
        INSERT INTO {schema}.questions VALUES (number, p_question);
      END IF;
    END IF;
    -- Locked, so that the answer waits for a standby even if the stream was known.
    PERFORM FROM {schema}.streams WHERE request = p_request FOR NO KEY UPDATE;
    RETURN QUERY SELECT * FROM {schema}.described WHERE request = p_request;
    IF FOUND THEN RETURN; END IF;
  END LOOP;
  RAISE serialization_failure USING MESSAGE = 'the stream of the request could not be found';
END $$;

CREATE FUNCTION {schema}.describe(p_id uuid, p_request bytea)
RETURNS SETOF {schema}.described LANGUAGE plpgsql STABLE {settings} AS $$
BEGIN
  PERFORM {schema}.check_primary();
  IF p_id IS NOT NULL THEN
    RETURN QUERY SELECT * FROM {schema}.described WHERE stream_id = p_id;
  ELSE
    RETURN QUERY SELECT * FROM {schema}.described WHERE request = p_request;
  END IF;
END $$;

-- Append to a stream. `ending` is the outcome, NULL for an append that does not end it; `note` is the
-- number of the first note, NULL without a journal. The state is 'ok', 'held' for a repetition,
-- 'gap', 'fenced', 'unknown', or 'busy' if another call has locked the stream: nobody waits for it,
-- because other streams may share the call. `last` is the last number before the append.
CREATE FUNCTION {schema}.append_one(
  given float8, p_id uuid, p_epoch bigint, first bigint, count int, ending bytea, runs bytea[],
  note int, notes bytea[],
  OUT state text, OUT last bigint, OUT cancel boolean
) LANGUAGE plpgsql AS $$
DECLARE
  s record;
  final bigint := first + count - 1;
  held boolean;
  noted boolean := true;
  last_note int;
  body bytea;
  size int;
BEGIN
  SELECT n, epoch, ended_at, cancel_requested, claimed_seq, claimed_note, last_seq INTO s
    FROM {schema}.streams WHERE stream_id = p_id FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    PERFORM FROM {schema}.streams WHERE stream_id = p_id;
    state := CASE WHEN FOUND THEN 'busy' ELSE 'unknown' END;
    RETURN;
  END IF;
  cancel := s.cancel_requested;
  last := s.last_seq;
  IF last IS NULL THEN
    SELECT coalesce(max(r.last_seq), 0) INTO last FROM {schema}.runs r WHERE r.n = s.n;
  END IF;
  held := s.claimed_seq < first AND first <= final AND final <= last;
  IF s.epoch <> p_epoch OR (s.ended_at IS NOT NULL AND NOT held) THEN
    state := 'fenced';
    RETURN;
  END IF;
  IF NOT held AND first <> last + 1 THEN state := 'gap'; RETURN; END IF;
  IF note IS NOT NULL THEN
    SELECT coalesce(max(o.number), 0) INTO last_note FROM {schema}.notes o WHERE o.n = s.n;
    noted := s.claimed_note < note AND note + coalesce(array_length(notes, 1), 0) - 1 <= last_note;
    IF NOT noted AND note <> last_note + 1 THEN state := 'gap'; RETURN; END IF;
  END IF;
  IF NOT noted THEN
    FOREACH body IN ARRAY notes LOOP
      INSERT INTO {schema}.notes VALUES (s.n, note, body);
      note := note + 1;
    END LOOP;
  END IF;
  IF held THEN state := 'held'; RETURN; END IF;
  state := 'ok';
  FOREACH body IN ARRAY runs LOOP
    size := get_byte(body, 0) + 256 * get_byte(body, 1);  -- a run begins with its count
    INSERT INTO {schema}.runs VALUES (s.n, first + size - 1, first, body);
    first := first + size;
  END LOOP;
  IF ending IS NOT NULL THEN
    UPDATE {schema}.streams SET outcome = ending, ended_at = {schema}.moment(given),
      last_seq = final WHERE n = s.n;
    DELETE FROM {schema}.leases WHERE n = s.n;
    DELETE FROM {schema}.questions WHERE n = s.n;
    DELETE FROM {schema}.notes WHERE n = s.n;
  END IF;
END $$;

-- Append one run, with one note or none, as `append_one` does, but only if it certainly follows what
-- a running stream has. Return whether a cancel was requested; NULL if `append_one` must judge.
CREATE FUNCTION {schema}.append_run(
  p_id uuid, p_epoch bigint, first bigint, count int, run bytea, note int, body bytea
) RETURNS boolean LANGUAGE plpgsql {settings} AS $$
DECLARE
  s_n bigint;
  cancel boolean;
BEGIN
  SELECT n, cancel_requested INTO s_n, cancel FROM {schema}.streams
    WHERE stream_id = p_id AND epoch = p_epoch AND ended_at IS NULL FOR NO KEY UPDATE SKIP LOCKED;
  INSERT INTO {schema}.runs SELECT s_n, first + count - 1, first, run WHERE s_n IS NOT NULL
    AND first = 1 + coalesce((SELECT r.last_seq FROM {schema}.runs r WHERE r.n = s_n
      ORDER BY r.last_seq DESC LIMIT 1), 0)
    AND (note IS NULL OR note = 1 + coalesce((SELECT o.number FROM {schema}.notes o
      WHERE o.n = s_n ORDER BY o.number DESC LIMIT 1), 0));
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF body IS NOT NULL THEN INSERT INTO {schema}.notes VALUES (s_n, note, body); END IF;
  RETURN cancel;
END $$;

-- Append to several streams. A refused append is a row like all others, so it does not fail the
-- rest. `runs` and `notes` have those of all appends, one after the other.
CREATE FUNCTION {schema}.append(
  given float8, ids uuid[], epochs bigint[], firsts bigint[], counts int[], endings bytea[],
  run_counts int[], runs bytea[], note_firsts int[], note_counts int[], notes bytea[],
  OUT state text, OUT last bigint, OUT cancel boolean
) RETURNS SETOF record LANGUAGE plpgsql {settings} AS $$
DECLARE
  run int := 1;
  note int := 1;
BEGIN
  FOR i IN 1..array_length(ids, 1) LOOP
    cancel := NULL;
    IF run_counts[i] = 1 AND note_counts[i] <= 1 AND endings[i] IS NULL THEN
      cancel := {schema}.append_run(ids[i], epochs[i], firsts[i], counts[i], runs[run],
        note_firsts[i], CASE WHEN note_counts[i] = 1 THEN notes[note] END);
      state := 'ok';
      last := firsts[i] - 1;
    END IF;
    IF cancel IS NULL THEN
      SELECT a.* INTO state, last, cancel FROM {schema}.append_one(given, ids[i], epochs[i],
        firsts[i], counts[i], endings[i], runs[run:run + run_counts[i] - 1], note_firsts[i],
        notes[note:note + note_counts[i] - 1]) a;
    END IF;
    run := run + run_counts[i];
    note := note + note_counts[i];
    RETURN NEXT;
  END LOOP;
END $$;

-- Read what follows a position: its description and its runs are of one moment. Runs are returned
-- up to the one that exceeds `max_bytes`; `upto` is the number of the last entry in them.
CREATE FUNCTION {schema}.read(
  p_id uuid, after bigint, max_runs int, max_bytes int,
  OUT last bigint, OUT ended boolean, OUT body_gone boolean, OUT epochs bigint[],
  OUT first bigint, OUT upto bigint, OUT runs bytea[]
) RETURNS SETOF record LANGUAGE plpgsql STABLE {settings} AS $$
#variable_conflict use_column
BEGIN
  PERFORM {schema}.check_primary();
  RETURN QUERY
  SELECT coalesce(s.last_seq, (SELECT max(r.last_seq) FROM {schema}.runs r WHERE r.n = s.n), 0),
    s.ended_at IS NOT NULL, s.body > 0, s.epochs, p.first, p.upto, p.runs
  FROM {schema}.streams s, LATERAL (
    SELECT min(first_seq) AS first, max(last_seq) AS upto, array_agg(run ORDER BY last_seq) AS runs
    FROM (
      SELECT r.first_seq, r.last_seq, r.run, sum(size) OVER (ORDER BY r.last_seq) - size AS before
      FROM {schema}.runs r, LATERAL (
        SELECT octet_length(r.run) - 4 * (r.last_seq - r.first_seq + 2) AS size  -- of its entries
      ) sizes
      WHERE r.n = s.n AND r.last_seq > after ORDER BY r.last_seq LIMIT max_runs
    ) chosen WHERE before <= max_bytes
  ) p
  WHERE s.stream_id = p_id;
END $$;

-- The last numbers of running streams, and which of the others have ended or are gone.
CREATE FUNCTION {schema}.positions(ids uuid[])
RETURNS TABLE (stream_id uuid, last bigint) LANGUAGE plpgsql STABLE {settings} AS $$
BEGIN
  PERFORM {schema}.check_primary();
  RETURN QUERY
  SELECT a.id, CASE WHEN s.ended_at IS NULL THEN
    coalesce((SELECT max(r.last_seq) FROM {schema}.runs r WHERE r.n = s.n), 0) END
  FROM unnest(ids) AS a (id) LEFT JOIN {schema}.streams s ON s.stream_id = a.id;
END $$;

CREATE FUNCTION {schema}.journal(p_id uuid, after int, max_bytes int)
RETURNS SETOF bytea LANGUAGE plpgsql STABLE {settings} AS $$
BEGIN
  PERFORM {schema}.check_primary();
  RETURN QUERY
  SELECT note FROM (
    SELECT o.number, o.note,
      sum(octet_length(o.note)) OVER (ORDER BY o.number) - octet_length(o.note) AS size_before
    FROM {schema}.notes o JOIN {schema}.streams s USING (n)
    WHERE s.stream_id = p_id AND o.number > after ORDER BY o.number LIMIT 1000
  ) chosen WHERE size_before <= max_bytes ORDER BY number;
END $$;

-- Replace the question of a stream that is held with this epoch. Return the state.
CREATE FUNCTION {schema}.change_question(p_id uuid, p_epoch bigint, p_question bytea)
RETURNS text LANGUAGE plpgsql {settings} AS $$
DECLARE
  s {schema}.streams;
BEGIN
  SELECT * INTO s FROM {schema}.streams WHERE stream_id = p_id FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  IF s.epoch <> p_epoch OR s.ended_at IS NOT NULL THEN RETURN 'fenced'; END IF;
  INSERT INTO {schema}.questions VALUES (s.n, p_question)
    ON CONFLICT (n) DO UPDATE SET question = excluded.question;
  RETURN 'ok';
END $$;

CREATE FUNCTION {schema}.request_cancel(p_id uuid)
RETURNS boolean LANGUAGE plpgsql {settings} AS $$
BEGIN
  PERFORM FROM {schema}.streams WHERE stream_id = p_id FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE {schema}.streams SET cancel_requested = true
    WHERE stream_id = p_id AND ended_at IS NULL AND NOT cancel_requested;
  RETURN true;
END $$;

-- Leases and epochs.

-- Renew the leases of streams that are held with these epochs: a row for each of them, which says
-- whether a cancel was requested.
CREATE FUNCTION {schema}.renew(given float8, lease float8, ids uuid[], epochs bigint[])
RETURNS TABLE (stream_id uuid, cancel boolean) LANGUAGE plpgsql {settings} AS $$
#variable_conflict use_column
DECLARE
  now_ float8;
  held tid[];
BEGIN
  SELECT array_agg(l.ctid) INTO held FROM (
    SELECT s.n, a.epoch FROM unnest(ids, epochs) AS a (id, epoch)
    JOIN {schema}.streams s ON s.stream_id = a.id ORDER BY s.stream_id
  ) mine, LATERAL (
    SELECT ctid, epoch FROM {schema}.leases WHERE n = mine.n ORDER BY until DESC LIMIT 1
    FOR NO KEY UPDATE
  ) l WHERE l.epoch = mine.epoch;
  now_ := {schema}.moment(given);
  RETURN QUERY
  WITH renewed AS (
    UPDATE {schema}.leases SET until = greatest(until, now_ + lease) WHERE ctid = ANY (held)
    RETURNING n
  )
  SELECT s.stream_id, s.cancel_requested FROM renewed JOIN {schema}.streams s USING (n);
END $$;

-- Begin the next epoch of a stream whose row is locked. Its number is the one that the caller
-- made, but greater than that of the current epoch.
CREATE FUNCTION {schema}.begin_epoch(
  p_n bigint, number bigint, p_until float8, p_claim uuid, p_released bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  last bigint;
  next bigint;
BEGIN
  SELECT coalesce(max(last_seq), 0) INTO last FROM {schema}.runs WHERE n = p_n;
  UPDATE {schema}.streams SET
    epoch = greatest(epoch + 1, number),
    epochs = epochs || ARRAY[last + 1, greatest(epoch + 1, number)],
    claimed_seq = last,
    claimed_note = coalesce((SELECT max(o.number) FROM {schema}.notes o WHERE o.n = p_n), 0),
    claim = p_claim,
    released = p_released
    WHERE n = p_n RETURNING epoch INTO next;
  UPDATE {schema}.leases SET epoch = next, until = p_until WHERE n = p_n;
END $$;

-- Take over streams whose lease ran out; with `p_agent` only those of this agent, and those of
-- another version one lease later. Without it, durable streams only if nobody has claimed them for
-- `unclaimed` seconds. A repetition finds its own claims by the unique name `p_claim`. For one lease
-- after a restart, or on another server, the only row is that of the server: it may not have the
-- latest leases, so living producers renew theirs first.
CREATE FUNCTION {schema}.claim(
  given float8, lease float8, p_claim uuid, number bigint, most int, p_agent bytea,
  p_version bytea, unclaimed float8,
  OUT stream_id uuid, OUT epoch bigint, OUT last bigint, OUT question bytea, OUT server text
) RETURNS SETOF record LANGUAGE plpgsql {settings} AS $$
#variable_conflict use_column
DECLARE
  now_ float8 := {schema}.moment(given);
  known text := {schema}.server();
  due bigint;
BEGIN
  PERFORM {schema}.check_primary();
  UPDATE {schema}.serving SET server = known, since = now_ WHERE one = 1 AND server <> known;
  IF EXISTS (SELECT FROM {schema}.serving
      WHERE one = 1 AND since <= now_ AND now_ < since + lease) THEN
    server := known;
    RETURN NEXT;
    RETURN;
  END IF;
  IF NOT EXISTS (SELECT FROM {schema}.streams s WHERE s.claim = p_claim) THEN
    FOR due IN
      SELECT l.n FROM {schema}.leases l WHERE l.until <= now_ AND CASE
        WHEN p_agent IS NULL THEN l.agent_id IS NULL OR l.until <= now_ - unclaimed
        ELSE l.agent_id = p_agent
          AND l.until <= now_ - CASE WHEN l.version = p_version THEN 0 ELSE lease END
        END
      ORDER BY l.until LIMIT most FOR UPDATE SKIP LOCKED
    LOOP
      PERFORM FROM {schema}.streams s WHERE s.n = due AND s.ended_at IS NULL
        FOR NO KEY UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND;
      PERFORM {schema}.begin_epoch(due, number, now_ + lease, p_claim, NULL);
      number := number - number % 8192 + floor(random() * 8192)::bigint;  -- see `new_epoch`
    END LOOP;
  END IF;
  RETURN QUERY SELECT * FROM {schema}.claimed(p_claim);
END $$;

-- The streams of a claim. They are locked, so that a repeated claim waits for a standby too.
CREATE FUNCTION {schema}.claimed(
  p_claim uuid,
  OUT stream_id uuid, OUT epoch bigint, OUT last bigint, OUT question bytea, OUT server text
) RETURNS SETOF record LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  PERFORM FROM {schema}.streams s WHERE s.claim = p_claim ORDER BY s.stream_id FOR NO KEY UPDATE;
  RETURN QUERY
  SELECT s.stream_id, s.epoch, s.claimed_seq, coalesce(q.question, ''), {schema}.server()
  FROM {schema}.streams s LEFT JOIN {schema}.questions q USING (n)
  WHERE s.claim = p_claim AND s.ended_at IS NULL;
END $$;

-- Begin the next epoch of a stream for its holder. No row: it is fenced. No `stream_id`: unknown.
CREATE FUNCTION {schema}.claim_held(
  given float8, lease float8, p_id uuid, p_epoch bigint, p_claim uuid, number bigint,
  OUT stream_id uuid, OUT epoch bigint, OUT last bigint, OUT question bytea, OUT server text
) RETURNS SETOF record LANGUAGE plpgsql {settings} AS $$
#variable_conflict use_column
DECLARE
  s {schema}.streams;
BEGIN
  SELECT * INTO s FROM {schema}.streams WHERE stream_id = p_id FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN NEXT;
    RETURN;
  END IF;
  IF s.ended_at IS NULL AND s.epoch = p_epoch THEN
    PERFORM {schema}.begin_epoch(s.n, number, {schema}.moment(given) + lease, p_claim, NULL);
  END IF;
  RETURN QUERY SELECT * FROM {schema}.claimed(p_claim);
END $$;

-- End the epoch and the lease of a durable stream. A repetition has no effect until it is claimed.
CREATE FUNCTION {schema}.release(given float8, p_id uuid, p_epoch bigint, number bigint)
RETURNS text LANGUAGE plpgsql {settings} AS $$
DECLARE
  s {schema}.streams;
BEGIN
  SELECT * INTO s FROM {schema}.streams WHERE stream_id = p_id FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  IF s.ended_at IS NOT NULL OR s.agent_id IS NULL THEN RETURN 'fenced'; END IF;
  IF s.released = p_epoch THEN RETURN 'ok'; END IF;
  IF s.epoch <> p_epoch THEN RETURN 'fenced'; END IF;
  PERFORM {schema}.begin_epoch(s.n, number, {schema}.moment(given), NULL, p_epoch);
  RETURN 'ok';
END $$;

-- Conversations.

-- Add a turn; one of an earlier epoch is replaced, and the oldest ones beyond the limits go.
CREATE FUNCTION {schema}.add_turn(
  given float8, p_conversation bytea, p_id uuid, p_turn bytea, p_epoch bigint, max_turns int,
  max_bytes bigint
) RETURNS void LANGUAGE plpgsql {settings} AS $$
DECLARE
  now_ float8;
BEGIN
  -- Locks the conversation, also against its expiry.
  INSERT INTO {schema}.conversations AS c VALUES (p_conversation, {schema}.moment(given))
    ON CONFLICT (conversation) DO UPDATE SET touched = c.touched;
  INSERT INTO {schema}.turns AS t (conversation, stream_id, epoch, turn)
    VALUES (p_conversation, p_id, p_epoch, p_turn)
    ON CONFLICT (conversation, stream_id) DO UPDATE SET turn = excluded.turn, epoch = excluded.epoch
    WHERE t.epoch < excluded.epoch;
  IF NOT FOUND THEN RETURN; END IF;
  now_ := {schema}.moment(given);
  UPDATE {schema}.conversations SET touched = now_
    WHERE conversation = p_conversation AND touched < now_;
  DELETE FROM {schema}.turns WHERE id IN (
    SELECT id FROM (
      SELECT id, row_number() OVER w AS place, sum(octet_length(turn)) OVER w AS size
      FROM {schema}.turns WHERE conversation = p_conversation WINDOW w AS (ORDER BY id DESC)
    ) chosen WHERE place > 1 AND (place > max_turns OR size > max_bytes)
  );
END $$;

CREATE FUNCTION {schema}.turns(p_conversation bytea, max_turns int, max_bytes bigint)
RETURNS SETOF bytea LANGUAGE plpgsql STABLE {settings} AS $$
BEGIN
  PERFORM {schema}.check_primary();
  RETURN QUERY
  SELECT turn FROM (
    SELECT id, turn, row_number() OVER w AS place, sum(octet_length(turn)) OVER w AS size
    FROM {schema}.turns WHERE conversation = p_conversation WINDOW w AS (ORDER BY id DESC)
    LIMIT max_turns
  ) chosen WHERE place = 1 OR size <= max_bytes ORDER BY id;
END $$;

-- Expiry, in steps. Each returns how much it has done, 0 when nothing is left.

-- Mark the streams whose entries are dropped next. Readers get no entry of them from then on.
CREATE FUNCTION {schema}.mark_bodies(ended_until float8, most int)
RETURNS SETOF uuid LANGUAGE plpgsql {settings} AS $$
BEGIN
  RETURN QUERY UPDATE {schema}.streams SET body = 1 WHERE n IN (
    SELECT n FROM {schema}.streams WHERE ended_at <= ended_until AND body = 0
    ORDER BY ended_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED
  ) RETURNING stream_id;
END $$;

CREATE FUNCTION {schema}.drop_bodies(most int)
RETURNS bigint LANGUAGE plpgsql {settings} AS $$
DECLARE
  chosen bigint[];
  runs bigint;
  streams bigint;
BEGIN
  SELECT array_agg(n) INTO chosen FROM (
    SELECT n FROM {schema}.streams WHERE body = 1 ORDER BY n LIMIT most
    FOR NO KEY UPDATE SKIP LOCKED
  ) marked;
  DELETE FROM {schema}.runs WHERE (n, last_seq) IN (
    SELECT r.n, r.last_seq FROM {schema}.runs r WHERE r.n = ANY (chosen) LIMIT most
  );
  GET DIAGNOSTICS runs = ROW_COUNT;
  UPDATE {schema}.streams s SET body = 2 WHERE n = ANY (chosen)
    AND NOT EXISTS (SELECT FROM {schema}.runs r WHERE r.n = s.n);
  GET DIAGNOSTICS streams = ROW_COUNT;
  RETURN runs + streams;
END $$;

CREATE FUNCTION {schema}.drop_streams(ended_until float8, most int)
RETURNS bigint LANGUAGE plpgsql {settings} AS $$
DECLARE
  dropped bigint;
BEGIN
  DELETE FROM {schema}.streams WHERE n IN (
    SELECT n FROM {schema}.streams WHERE body = 2 AND ended_at <= ended_until
    ORDER BY ended_at LIMIT most FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS dropped = ROW_COUNT;
  RETURN dropped;
END $$;

CREATE FUNCTION {schema}.drop_conversations(touched_until float8, most int)
RETURNS bigint LANGUAGE plpgsql {settings} AS $$
DECLARE
  chosen bytea[];
BEGIN
  SELECT array_agg(conversation) INTO chosen FROM (
    SELECT conversation FROM {schema}.conversations WHERE touched <= touched_until
    ORDER BY touched LIMIT most FOR UPDATE SKIP LOCKED
  ) old;
  DELETE FROM {schema}.turns WHERE conversation = ANY (chosen);
  DELETE FROM {schema}.conversations WHERE conversation = ANY (chosen);
  RETURN coalesce(array_length(chosen, 1), 0);
END $$;

CREATE FUNCTION {schema}.drop_tasks(p_open boolean, changed_before float8, most int)
RETURNS SETOF uuid LANGUAGE plpgsql {settings} AS $$
DECLARE
  chosen uuid[];
BEGIN
  SELECT array_agg(task_id) INTO chosen FROM (
    SELECT task_id FROM {schema}.tasks WHERE open = p_open AND changed < changed_before
    ORDER BY changed LIMIT most FOR UPDATE SKIP LOCKED
  ) old;
  DELETE FROM {schema}.task_values WHERE task_id = ANY (chosen);
  DELETE FROM {schema}.deliveries WHERE task_id = ANY (chosen);
  DELETE FROM {schema}.tasks WHERE task_id = ANY (chosen);
  RETURN QUERY SELECT unnest(chosen);
END $$;

CREATE FUNCTION {schema}.drop_limits(now_ float8)
RETURNS void LANGUAGE plpgsql {settings} AS $$
BEGIN
  DELETE FROM {schema}.reservations WHERE until < now_;
  DELETE FROM {schema}.buckets WHERE full_at < (now_ * 1000000)::bigint;
END $$;

-- Tasks.

-- Return 'applied' if the change was stored already, 'late' if another one was, 'fits' otherwise.
-- The task is locked.
CREATE FUNCTION {schema}.judge_change(
  p_task uuid, old_version int, old_revision text, new_revision text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  known {schema}.tasks;
BEGIN
  SELECT * INTO known FROM {schema}.tasks WHERE task_id = p_task FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN 'late'; END IF;
  IF new_revision = ANY (known.revisions) THEN RETURN 'applied'; END IF;
  IF known.version = old_version AND known.revisions[1] = old_revision THEN RETURN 'fits'; END IF;
  RETURN 'late';
END $$;

CREATE FUNCTION {schema}.put_values(p_task uuid, names bytea[], contents bytea[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {schema}.task_values SELECT p_task, v.name, v.value
    FROM unnest(names, contents) AS v (name, value)
    ON CONFLICT (task_id, name) DO UPDATE SET value = excluded.value;
END $$;

-- Store a change, unless another one was stored meanwhile.
CREATE FUNCTION {schema}.update_task(
  p_task uuid, old_version int, old_revision text, new_revision text, p_state bytea,
  p_changed float8, p_data bytea, p_open boolean, p_version int, kept int, names bytea[],
  contents bytea[]
) RETURNS boolean LANGUAGE plpgsql {settings} AS $$
DECLARE
  verdict text := {schema}.judge_change(p_task, old_version, old_revision, new_revision);
BEGIN
  IF verdict = 'fits' THEN
    UPDATE {schema}.tasks SET state = p_state, changed = p_changed, data = p_data, open = p_open,
      version = p_version, revisions = (new_revision || revisions)[1:kept] WHERE task_id = p_task;
    PERFORM {schema}.put_values(p_task, names, contents);
  END IF;
  RETURN verdict <> 'late';
END $$;

-- Open the stream of a request, and store its task if the stream is new.
CREATE FUNCTION {schema}.begin_task(
  given float8, lease float8, p_id uuid, p_request bytea, p_principal bytea, p_request_id uuid,
  p_fingerprint bytea, p_opening uuid, p_agent bytea, p_version bytea, p_question bytea,
  p_replaces uuid,
  p_task uuid, p_owner bytea, p_context bytea, p_state bytea, p_changed float8, p_data bytea,
  p_open boolean, p_number int, p_revision text, names bytea[], contents bytea[]
) RETURNS SETOF {schema}.described LANGUAGE plpgsql {settings} AS $$
DECLARE
  found {schema}.described;
BEGIN
  SELECT * INTO found FROM {schema}.open(given, lease, p_id, p_request, p_principal, p_request_id,
    p_fingerprint, p_opening, p_agent, p_version, p_question, p_replaces);
  IF found.opening = p_opening THEN
    INSERT INTO {schema}.tasks VALUES (p_task, p_owner, p_principal, p_context, p_state, p_changed,
      p_data, p_open, p_number, ARRAY[p_revision]) ON CONFLICT (task_id) DO NOTHING;
    PERFORM {schema}.put_values(p_task, names, contents);
  END IF;
  RETURN NEXT found;
END $$;

-- Open a further stream of a task with a change of it. No row: the change came too late.
CREATE FUNCTION {schema}.add_stream(
  given float8, lease float8, p_id uuid, p_request bytea, p_principal bytea, p_request_id uuid,
  p_fingerprint bytea, p_opening uuid, p_agent bytea, p_version bytea, p_question bytea,
  p_replaces uuid,
  p_task uuid, old_version int, old_revision text, new_revision text, p_state bytea,
  p_changed float8, p_data bytea, p_open boolean, p_number int, kept int, names bytea[],
  contents bytea[]
) RETURNS SETOF {schema}.described LANGUAGE plpgsql {settings} AS $$
BEGIN
  IF {schema}.update_task(p_task, old_version, old_revision, new_revision, p_state, p_changed,
      p_data, p_open, p_number, kept, names, contents) THEN
    RETURN QUERY SELECT * FROM {schema}.open(given, lease, p_id, p_request, p_principal,
      p_request_id, p_fingerprint, p_opening, p_agent, p_version, p_question, p_replaces);
  END IF;
END $$;

-- End a stream, add its turn, and store a change of its task. The state is that of `append`, or
-- 'late' if another change was stored meanwhile.
CREATE FUNCTION {schema}.end_task(
  given float8, p_id uuid, p_epoch bigint, p_first bigint, p_count int, p_outcome bytea,
  runs bytea[], p_conversation bytea, p_turn bytea, max_turns int, max_bytes bigint,
  p_task uuid, old_version int, old_revision text, new_revision text, p_state bytea,
  p_changed float8, p_data bytea, p_open boolean, p_version int, kept int, names bytea[],
  contents bytea[],
  OUT state text, OUT last bigint
) LANGUAGE plpgsql {settings} AS $$
BEGIN
  IF {schema}.judge_change(p_task, old_version, old_revision, new_revision) = 'late' THEN
    state := 'late';
    RETURN;
  END IF;
  SELECT a.state, a.last INTO state, last FROM {schema}.append_one(given, p_id, p_epoch, p_first,
    p_count, p_outcome, runs, NULL, NULL) a;
  IF state = 'busy' THEN RAISE lock_not_available; END IF;
  IF state NOT IN ('ok', 'held') THEN RETURN; END IF;
  IF p_conversation IS NOT NULL THEN
    PERFORM {schema}.add_turn(given, p_conversation, p_id, p_turn, p_epoch, max_turns, max_bytes);
  END IF;
  PERFORM {schema}.update_task(p_task, old_version, old_revision, new_revision, p_state,
    p_changed, p_data, p_open, p_version, kept, names, contents);
END $$;

CREATE FUNCTION {schema}.get_task(p_task uuid)
RETURNS SETOF {schema}.tasks LANGUAGE plpgsql STABLE {settings} AS $$
BEGIN
  PERFORM {schema}.check_primary();
  RETURN QUERY SELECT * FROM {schema}.tasks WHERE task_id = p_task;
END $$;

-- The tasks of a principal, the latest change first, after a position.
CREATE FUNCTION {schema}.find_tasks(
  p_owner bytea, p_context bytea, p_state bytea, since float8, after_changed float8,
  after_task uuid, most int
) RETURNS SETOF {schema}.tasks LANGUAGE plpgsql STABLE {settings} AS $$
BEGIN
  PERFORM {schema}.check_primary();
  RETURN QUERY SELECT * FROM {schema}.tasks t WHERE t.owner = p_owner AND t.state <> ''
    AND (p_context IS NULL OR t.context_id = p_context) AND (p_state IS NULL OR t.state = p_state)
    AND (since IS NULL OR t.changed >= since)
    AND (after_task IS NULL OR (t.changed, t.task_id) < (after_changed, after_task))
    ORDER BY t.changed DESC, t.task_id DESC LIMIT most;
END $$;

CREATE FUNCTION {schema}.count_tasks(
  p_owner bytea, p_context bytea, p_state bytea, since float8
) RETURNS bigint LANGUAGE plpgsql STABLE {settings} AS $$
BEGIN
  PERFORM {schema}.check_primary();
  RETURN (SELECT count(*) FROM {schema}.tasks t WHERE t.owner = p_owner AND t.state <> ''
    AND (p_context IS NULL OR t.context_id = p_context) AND (p_state IS NULL OR t.state = p_state)
    AND (since IS NULL OR t.changed >= since));
END $$;

CREATE FUNCTION {schema}.get_value(p_task uuid, p_name bytea)
RETURNS SETOF bytea LANGUAGE plpgsql STABLE {settings} AS $$
BEGIN
  PERFORM {schema}.check_primary();
  RETURN QUERY SELECT value FROM {schema}.task_values WHERE task_id = p_task AND name = p_name;
END $$;

-- Deliveries.

CREATE FUNCTION {schema}.put_delivery(
  p_task uuid, p_key bytea, p_name bytea, p_data bytea, p_progress bytea, p_due float8,
  p_revision text, most int
) RETURNS boolean LANGUAGE plpgsql {settings} AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(p_task::text, 0));  -- they are counted
  IF (SELECT count(*) FROM {schema}.deliveries WHERE task_id = p_task AND key <> p_key) >= most THEN
    RETURN false;
  END IF;
  INSERT INTO {schema}.deliveries
    VALUES (p_task, p_key, p_name, p_data, p_progress, p_due, p_revision)
    ON CONFLICT (task_id, key) DO UPDATE SET data = excluded.data, progress = excluded.progress,
      due = excluded.due, revision = excluded.revision;
  RETURN true;
END $$;

-- Store the next revision. A repetition finds its own one.
CREATE FUNCTION {schema}.replace_delivery(
  p_task uuid, p_key bytea, p_data bytea, p_progress bytea, p_due float8, p_revision text,
  old_revision text
) RETURNS boolean LANGUAGE plpgsql {settings} AS $$
BEGIN
  UPDATE {schema}.deliveries
    SET data = p_data, progress = p_progress, due = p_due, revision = p_revision
    WHERE task_id = p_task AND key = p_key AND revision IN (old_revision, p_revision);
  RETURN FOUND;
END $$;

CREATE FUNCTION {schema}.delete_delivery(p_task uuid, p_key bytea)
RETURNS void LANGUAGE plpgsql {settings} AS $$
BEGIN
  -- Locked, so that a repetition waits for a standby too.
  PERFORM FROM {schema}.tasks WHERE task_id = p_task FOR NO KEY UPDATE;
  DELETE FROM {schema}.deliveries WHERE task_id = p_task AND key = p_key;
END $$;

CREATE FUNCTION {schema}.get_deliveries(p_task uuid)
RETURNS SETOF {schema}.deliveries LANGUAGE plpgsql STABLE {settings} AS $$
BEGIN
  PERFORM {schema}.check_primary();
  RETURN QUERY SELECT * FROM {schema}.deliveries WHERE task_id = p_task ORDER BY name;
END $$;

CREATE FUNCTION {schema}.due_deliveries(until float8, most int)
RETURNS SETOF {schema}.deliveries LANGUAGE plpgsql STABLE {settings} AS $$
BEGIN
  PERFORM {schema}.check_primary();
  RETURN QUERY SELECT * FROM {schema}.deliveries d WHERE d.due <= until ORDER BY d.due LIMIT most;
END $$;

-- Limits. Times that are too far ahead were written before the clock was set back, and do not
-- count.

-- Replace what an owner has reserved. The arrays have an item for streams and one for readers.
CREATE FUNCTION {schema}.reserve(
  given float8, lease float8, p_principal bytea, p_owner text, held int[], wanted int[],
  limits int[]
) RETURNS int[] LANGUAGE plpgsql {settings} AS $$
DECLARE
  now_ float8;
  others int[];
  granted int[];
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(encode(p_principal, 'hex'), 1));
  now_ := {schema}.moment(given);
  SELECT ARRAY[coalesce(sum(streams), 0), coalesce(sum(readers), 0)] INTO others
    FROM {schema}.reservations r WHERE r.principal = p_principal AND r.owner <> p_owner
    AND r.until BETWEEN now_ AND now_ + 2 * lease;
  granted := ARRAY[
    greatest(0, least(wanted[1], limits[1] - others[1] - held[1])),
    greatest(0, least(wanted[2], limits[2] - others[2] - held[2]))];
  IF held[1] + granted[1] + held[2] + granted[2] > 0 THEN
    INSERT INTO {schema}.reservations VALUES (p_principal, p_owner, held[1] + granted[1],
        held[2] + granted[2], now_ + lease)
      ON CONFLICT (principal, owner) DO UPDATE SET streams = excluded.streams,
        readers = excluded.readers, until = excluded.until;
  ELSE
    DELETE FROM {schema}.reservations r WHERE r.principal = p_principal AND r.owner = p_owner;
  END IF;
  RETURN granted;
END $$;

-- Take a token and return 0, or return the microseconds until there is one; a negative `count`
-- gives tokens back. One token is added in each `span`, `size` of them at most.
CREATE FUNCTION {schema}.change_bucket(
  given float8, p_principal bytea, span bigint, size int, count int
) RETURNS bigint LANGUAGE plpgsql {settings} AS $$
DECLARE
  now_ bigint;
  filled bigint;
  missing bigint;
BEGIN
  INSERT INTO {schema}.buckets AS b VALUES (p_principal, 0)
    ON CONFLICT (principal) DO UPDATE SET full_at = b.full_at RETURNING full_at INTO filled;
  now_ := floor({schema}.moment(given) * 1000000);
  filled := greatest(now_, least(filled, now_ + span * size));
  missing := greatest(0, filled + span * count - now_ - span * size);
  IF missing = 0 THEN filled := filled + span * count; END IF;
  UPDATE {schema}.buckets SET full_at = filled WHERE principal = p_principal;
  RETURN missing;
END $$;
