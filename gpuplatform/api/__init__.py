"""The shared parts of every endpoint: strict JSON, errors, pages, the OpenAPI document."""
