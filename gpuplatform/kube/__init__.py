"""The only way to the Kubernetes API: client, deadlines, reflector, leader election."""
