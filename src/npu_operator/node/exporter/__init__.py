"""The exporter: the numbers in the node's state file, for Prometheus. Needs no device, no token and no root."""
