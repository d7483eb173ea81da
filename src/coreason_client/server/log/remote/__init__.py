"""What the logs on a server share, whichever server it is: Valkey, Redis or Postgres.

`_log` and `_owned` are their bases, for all event loops and for one of them: the streams that a
process writes, and its readers. `_store` repeats commands and notices another server,
`_command_queue` sends commands in batches, and `_clocks` measures time.
"""
