"""Accepted requests: idempotency, their order, and what operators do about them."""
