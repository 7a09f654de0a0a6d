"""Reading what `npu-smi` prints, for every release and chip family we know.

`reader.read(text)` is the way in. Two kinds of reading come out: an `InfoTable` (the bare `npu-smi info`, and every
error text) and `Details` (all other sub-commands). The rules behind all of it: cells and not columns, unknown words
are kept, one bad row never loses the table, an error is found on stdout, and a row from a zeroed structure is a chip
that does not answer.
"""
