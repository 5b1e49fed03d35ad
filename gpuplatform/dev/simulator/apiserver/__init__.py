"""A small Kubernetes API server for development: one process, one event loop, loopback HTTP.

Modules, from the bottom up: `errors` and `jsonpath`; `schema`, `expressions`, `rules`, `decode`,
`custom` and `builtins` (the form of objects); `store` and `journal` (stored state); `ownership`,
`patches` and `apply` (changes of objects); `targets`, `writes`, `deletes`, `lists` and `watch`
(verbs); `dispatch` (HTTP); `controllers` (clients in the same process, with the scheduler). One
thread uses the store, so it has no locks and no verb awaits.

Not simulated: RBAC, quota, storage, jobs, admission webhooks, conversion, preemption. A request
for one of them is answered with 404 or 501.
"""
