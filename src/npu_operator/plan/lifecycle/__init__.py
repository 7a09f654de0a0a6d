"""The life of a driver: upgrades, reboots and healing, decided without a clock, a network or a die.

`table` has the states of a node and everything that may move it; `gates` say why a node may not start; `slots` who may
be down; `record` is what we remember on the Node; `planner` is the door. Source: product.md §4.
"""
