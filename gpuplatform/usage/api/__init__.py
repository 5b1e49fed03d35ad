"""The API of usage."""
