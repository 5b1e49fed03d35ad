"""A small Kubernetes API server for development: one process, one event loop, loopback HTTP.

Modules, from the bottom up: `status` and `paths` (errors, JSON paths), `schema`, `expressions`,
`rules`, `decode`, `custom` and `builtins` (what objects look like), `store` and `journal` (stored
state), `ownership`, `patches` and `apply` (how objects change), `intake`, `writes`, `deletes`,
`reads` and `watch` (verbs), `http` (the server), `controllers` (clients in the same process, the
scheduler among them). One thread uses the store, so nothing takes a lock and no verb awaits.

Not simulated: RBAC, quota, storage, jobs, admission webhooks, conversion, preemption. A request
for one of them is answered with 404 or 501.
"""
