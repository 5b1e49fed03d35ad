"""HTTP routes of stock pools and GPU specs, for operators."""
