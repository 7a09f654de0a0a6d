"""The commands: `npu-operator …` and `kubectl npu …`."""
