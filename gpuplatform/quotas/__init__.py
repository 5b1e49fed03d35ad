"""The limits of tenants: their API, their operations and their metrics."""
