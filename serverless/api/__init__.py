"""HTTP routes of serverless functions and invocations."""
