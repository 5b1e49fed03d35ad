"""The API of members and tokens of tenants, as operations."""
