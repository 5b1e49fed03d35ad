"""The admin site: navigation, login, permissions and error pages."""
