"""The admin site: navigation, log-in, permissions and error pages."""
