"""The node processes: one program, one module per agent. `host.py` is the only door to the host."""
