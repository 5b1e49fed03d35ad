"""HTTP routes of functions and invocations."""
