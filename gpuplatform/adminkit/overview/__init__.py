"""The first page of the admin: health, capacity, failures, latency."""
