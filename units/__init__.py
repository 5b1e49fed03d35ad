"""GPU units in both roles: stock, and what users run."""
