"""The objects of an installation: definitions, service accounts, permissions and dashboards."""
