"""The audit log: who changed what, which requests were rejected, and who read something secret."""
