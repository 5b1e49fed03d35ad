"""A small Kubernetes API server for development. It serves HTTP on loopback from one event loop.

Modules, from the bottom up: `errors` and `jsonpath`; `schema`, `expressions`, `rules`, `decode`,
`custom` and `builtins` (validation and defaults); `store` and `journal` (storage); `ownership`,
`patches` and `apply` (merging and field ownership); `targets`, `writes`, `deletes`, `lists` and
`watch` (verbs); `dispatch` (HTTP); `controllers` (clients in the same process, with the
scheduler). Only one thread uses the store, so the store needs no locks, and verbs do not await.

Not simulated: authorization, the enforcement of quotas and of limits, storage, admission webhooks,
conversion, protobuf, disruption budgets. Role bindings, quotas and limit ranges are only stored,
except that new pods get default requests. The server rejects other such requests with 404, 415 or
501.
"""
