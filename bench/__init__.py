"""Ratios against peers; `bench/run` runs them, `bench/README.md` says what they mean."""
