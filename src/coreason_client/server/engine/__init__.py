"""Runs agents and writes what they produce to the log; knows nothing of HTTP."""
