"""Mutants: deliberate changes of one rule each, with the tests that must fail."""
