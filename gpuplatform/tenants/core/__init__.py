"""Pure rules of the namespaces of tenants."""
