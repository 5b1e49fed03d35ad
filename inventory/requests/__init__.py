"""The bodies of the routes of stock pools and the catalogue. Pure."""
