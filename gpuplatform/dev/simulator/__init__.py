"""The simulated cluster: a Kubernetes API server, and nodes with kubelets."""
