"""The operators' API of the inventory."""
