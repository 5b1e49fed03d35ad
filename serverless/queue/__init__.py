"""The NATS streams of invocations, as the platform and the sidecar use them."""
