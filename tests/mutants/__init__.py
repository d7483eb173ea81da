"""Mutants: rules of the package changed on purpose, each with the tests that must notice."""
