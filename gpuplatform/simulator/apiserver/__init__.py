"""A small Kubernetes API server for development: one process, one event loop, plain HTTP on loopback.

Rooms, from the bottom up: `status` and `paths` (errors, JSON paths), `schema` and `builtins` (what objects
look like), `store` and `journal` (what exists), `ownership`, `patches` and `apply` (how objects change),
`writes` and `reads` (verbs), `http` (the door), `controllers` and `scheduler` (clients inside the process).
The store is used by one thread only, so nothing here takes a lock and no verb awaits.

What is not simulated answers 501 and says so: RBAC, quota, storage, jobs, admission webhooks, CEL, conversion.
"""
