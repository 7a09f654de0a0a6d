"""Kubernetes machinery that knows no NPU: client, reflector, store, queue, lease, apply, eviction, events."""
