"""Development only, never in the image: embedded servers, the simulated cluster, demo data."""
