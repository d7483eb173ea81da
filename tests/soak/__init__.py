"""Replicas on one Valkey under load and faults: `python -m tests.soak`.

Everything is real: processes that are killed and frozen, a store that is paused and crashes,
connections that break. What every packet says follows from its stream and its number, every
replica notes what the store acknowledged to it, and at the end it is counted whether anything was
lost, doubled, spliced or out of order, and whether anybody was left waiting.

A run has two parts. `faults` kills, freezes, cuts and restarts at moments that follow from the
seed. `pressure` starves and blocks replicas, attacks them and fills the store.
"""
