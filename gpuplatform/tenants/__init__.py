"""The life cycle of tenants: operations, namespaces, routes and pages of the admin."""
