"""The rules of the usage ledger. Pure."""
