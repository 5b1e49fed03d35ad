"""The API of tenants for operators."""
