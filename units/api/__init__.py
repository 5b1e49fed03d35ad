"""HTTP routes of GPU units for users, and of stock and the inventory for operators."""
