"""The simulated cluster: an API server, and nodes with kubelets."""
