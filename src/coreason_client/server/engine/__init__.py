"""Runs agents and writes their output to the log; does not use HTTP."""
