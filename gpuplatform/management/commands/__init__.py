"""The commands: parse, call a service, print."""
