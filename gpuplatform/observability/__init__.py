"""Observability of the platform: health, state report, samples, metrics and log formats."""
