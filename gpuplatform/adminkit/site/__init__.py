"""The admin site: navigation, log-in, error pages, middleware."""
