"""The API of operations, and the response to every accepted write."""
