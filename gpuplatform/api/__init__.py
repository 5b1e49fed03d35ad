"""Shared code of all endpoints: strict JSON, errors, pagination and the OpenAPI document."""
