"""The admin site: navigation, log-in, permissions, error pages."""
