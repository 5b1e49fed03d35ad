"""Commands that exist in development mode only."""
