"""The driver of all reconcilers, with leases, gate, epoch, mirror, heartbeats and Events."""
