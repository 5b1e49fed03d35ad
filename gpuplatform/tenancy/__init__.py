"""Tenants, API tokens and their scopes, and the groups of the admin."""
