"""The options for the number, size and timing of the simulated nodes."""

from dataclasses import dataclass

GPU = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a process that simulates nodes."""

    nodes: int = 3
    gpus: int = 8
    resources: str = ""
    """Further extended resources of each node, such as `nvidia.com/mig-1g.10gb=7,rdma/hca=1`."""
    product: str = "NVIDIA-H100-80GB-HBM3"
    cpu: str = "64"
    memory: str = "512Gi"
    pods: int = 250
    prefix: str = "gpu-node-"
    """Prefix of node names such as `<prefix>1`. Each process needs a different prefix."""
    start_delay_seconds: float = 1.0
    """Time in seconds from binding to running, in which a real node pulls and starts the image."""
    back_off_seconds: float = 10.0
    lease_seconds: float = 10.0
    events_per_second: float = 50.0
    """Maximum number of Events per second of all nodes. 0 disables Events for benchmarks."""

    def devices(self) -> dict[str, int]:
        """Return the number of units of each extended resource of a node.

        Raises:
            ValueError: If `resources` is not a list of names with integers.
        """
        pairs = (entry.rpartition("=") for entry in filter(None, self.resources.split(",")))
        further = {name.strip(): int(number) for name, _, number in pairs}
        return {**({GPU: self.gpus} if self.gpus else {}), **further}

    def node_names(self) -> list[str]:
        """Return the names of all nodes of this process."""
        return [f"{self.prefix}{number}" for number in range(1, self.nodes + 1)]
