"""The NPU operator: one object, `NPUOperatorCtl`, makes the Ascend nodes of a Kubernetes cluster usable."""

__version__ = "0.1.0"
