"""Formats of Kubernetes: quantities, names, image references. Pure."""
