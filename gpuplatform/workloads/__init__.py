"""What runs in the cluster for a resource: pod templates, placement, start-up failures. Pure."""
