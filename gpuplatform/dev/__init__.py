"""Development tools that are not in the image: embedded servers, simulated cluster, demo data."""
