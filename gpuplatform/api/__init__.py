"""What every endpoint shares: strict JSON, errors, pages, the OpenAPI document."""
