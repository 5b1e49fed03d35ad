"""The rates of requests to the API, and their counters in the broker."""
