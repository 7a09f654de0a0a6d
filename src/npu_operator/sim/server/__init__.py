"""The API server in memory: exactly the verbs that `npu_operator.kube.client` uses, with the real one's semantics.

Left out on purpose, and tried on the real server by the cluster tests: CEL rules and admission policies, webhooks,
quotas, other patch types, PUT, deletecollection, conversion between versions.
"""
