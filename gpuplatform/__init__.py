"""The kernel of the platform: everything that belongs to no single app."""
