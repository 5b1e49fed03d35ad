"""The admin's first page: health, capacity, failures, latency."""
