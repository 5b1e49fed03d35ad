"""The declared spec, the names, the manifests and the planner of stock pools. Pure."""
