"""Tests of AG-UI."""
