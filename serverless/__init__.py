"""Functions and invocations: outbox, queue, sidecar, result store, activator."""
