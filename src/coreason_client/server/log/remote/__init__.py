"""What the logs on a server share, whichever server it is: Valkey, Redis or Postgres.

`_log` and `_owned.StreamSession` are their bases, for all event loops and for one of them.
`_command_queue` sends commands in batches, `_retries` repeats them, `_clocks` measures time,
`_identity` notices another server, `_owned` has the streams that this process writes and the
readers of streams, and `_background` runs tasks.
"""
