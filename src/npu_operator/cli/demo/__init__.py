"""`npu-operator demo`: the main job before your eyes, on a simulated or on a real cluster."""
