"""GPU units in both roles: stock units and active units."""
