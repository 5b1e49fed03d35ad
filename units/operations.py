"""How operations on GPU units are done in the cluster."""


def register_operations() -> None:
    """Make the kinds of operation of this app known."""
