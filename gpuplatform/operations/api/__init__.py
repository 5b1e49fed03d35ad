"""The jobs API, and the reply that every accepted write gives."""
