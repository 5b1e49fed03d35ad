"""The life of tenants: their operations, their namespaces, their routes and their admin pages."""
