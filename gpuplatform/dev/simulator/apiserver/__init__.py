"""A small Kubernetes API server for development: one process, one event loop, loopback HTTP.

Rooms, from the bottom up: `status` and `paths` (errors, JSON paths), `schema`, `decode` and
`builtins` (what objects look like), `store` and `journal` (what exists), `ownership`, `patches`
and `apply` (how objects change), `intake`, `writes`, `deletes`, `reads` and `watch` (verbs),
`http` (the door), `controllers` (clients inside the process, the scheduler is one). The store is
used by one thread only, so nothing here takes a lock and no verb awaits.

What is not simulated is not there (404) or says so (501): RBAC, quota, storage, jobs, admission
webhooks, CEL rules, conversion, preemption.
"""
