"""Benchmarks: each is a program of its own, with its last result beside it."""
