"""Services of tenants: accepted requests, their outcomes, and what belongs to a tenant."""
