"""The bodies of the routes of stock pools and of the catalogue. Pure."""
