"""The NATS JetStream queue: streams, messages, credentials, and the connection to it."""
