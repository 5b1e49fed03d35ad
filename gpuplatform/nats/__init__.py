"""Accounts and credentials of the NATS server."""
