"""Pod templates, placement, start-up failures and owned objects of pools and units. Pure."""
