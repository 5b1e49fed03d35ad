"""The driver of every reconciler: leases, gate, epoch, mirror, heartbeats, Events."""
