"""Answers as providers send them, and what must come of each: one table for each wire format."""
