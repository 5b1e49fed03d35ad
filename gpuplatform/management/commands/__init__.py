"""The management commands. Each parses its arguments, calls a service and prints the result."""
