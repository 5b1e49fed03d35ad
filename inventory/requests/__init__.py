"""Request bodies of the stock pool and GPU spec routes. Pure."""
