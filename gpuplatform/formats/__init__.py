"""The grammars of Kubernetes: quantities, names, image references. Pure."""
