"""Built-in kinds: types, defaulting, admission and validation.

`types.json` is derived from Kubernetes' published OpenAPI v3 documents (Apache-2.0): types, list
keys and merge keys, required fields, enumerations and formats, without descriptions. The bounds of
numbers are taken from Kubernetes' validation code, because the documents do not contain them.
`kinds.json` contains names, selectable fields and table columns.
"""
