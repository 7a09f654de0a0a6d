"""The words of the project: the API types, the names that never change, the vocabulary of reasons.

Frozen structs and pure functions; nothing here does I/O, reads a clock or draws a random number.
"""
