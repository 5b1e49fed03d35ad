"""Access to the Kubernetes API: client, deadlines, reflector and leader election."""
