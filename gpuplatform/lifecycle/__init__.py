"""State machines of the platform: tables of phases, one guarded transition, Kubernetes conditions."""
