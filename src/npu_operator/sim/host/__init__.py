"""A host in memory, and the vendor's tools as far as we use them, all from one model of the chips.

The tools say what the real ones say, in the layouts of all releases, with their errors and exit codes; `script` makes
one executable file of them, for nodes that are real.
"""
