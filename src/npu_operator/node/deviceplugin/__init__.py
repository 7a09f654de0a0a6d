"""The device plugin: offers the node's chips to the kubelet. All it knows is what the node's state file says."""
