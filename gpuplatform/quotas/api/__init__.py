"""The API of the limits of tenants."""
