"""A cluster in one process: API server, controllers, nodes and faults in virtual time, all drawn from one seed.

It runs the production code against other doors: `Cluster` and `Clock` of `npu_operator.kube.api`. What it may and may
not do is held to the real control plane by the contract tests; impossible inputs are refused with a reason.
"""
