"""State machines: phase tables, guarded transitions and Kubernetes conditions."""
