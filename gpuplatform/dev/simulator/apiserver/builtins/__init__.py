"""What the API server knows about the built-in kinds: their types, defaults, admission and checks.

`types.json` is condensed from Kubernetes' published OpenAPI v3 documents (Apache-2.0): types, list
keys and merge keys, required fields, enumerations and formats, no descriptions. The bounds of
numbers are those of Kubernetes' validation, which publishes none. `kinds.json` holds names,
selectable fields and table columns.
"""
