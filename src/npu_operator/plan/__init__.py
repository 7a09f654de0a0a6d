"""Decisions: from one frozen `Snapshot` to a `Plan` of writes, waits and reasons. No I/O, no clock, no chance."""
