"""The cluster process: watch, decide, write. The decisions themselves are in `npu_operator.plan`."""
