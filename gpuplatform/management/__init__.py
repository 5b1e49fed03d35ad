"""Commands of the platform, and what they share."""
