"""The first page of the admin: health, failures, capacity, throughput and latency."""
