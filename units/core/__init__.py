"""The declared spec, the names, the manifests and the planner of GPU units. Pure."""
