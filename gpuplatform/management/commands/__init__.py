"""The commands: parse arguments, call a service, print."""
