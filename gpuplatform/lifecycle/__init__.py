"""State machines: tables of phases, one guarded transition, Kubernetes conditions."""
