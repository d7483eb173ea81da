"""Replicas on one store under load and faults: `python -m tests.soak`.

Everything is real: processes are killed and frozen, the store is paused and crashes, connections
break. The content of each packet follows from its stream and its number, and each replica records
what the store acknowledged. At the end the run counts packets that were lost, duplicated, spliced
or out of order, and readers that were left waiting.

A run has six parts. `faults` kills, freezes, cuts and restarts at times that follow from the
seed. `pressure` starves and blocks replicas, attacks them and fills the store. `durable` runs
durable agents under the faults of the first part, and then restarts their replicas in turn.
`failover` replaces the store by a replica that lacks the last seconds. These four use Valkey;
`postgres` runs smaller forms of them on Postgres, where it also cuts connections to the store and
fills its disk. `talking`, on both stores, answers the questions of durable agents, sends messages
to running ones, and several messages of one conversation at once.
"""
