"""Built-in kinds: types, defaults, admission, validation.

`types.json` is condensed from Kubernetes' published OpenAPI v3 documents (Apache-2.0): types, list
keys and merge keys, required fields, enumerations and formats, without descriptions. The bounds of
numbers are those of Kubernetes' validation; the documents contain none. `kinds.json` contains
names, selectable fields and table columns.
"""
