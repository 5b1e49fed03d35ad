"""How many nodes of what shape are played, and how fast."""

from dataclasses import dataclass

GPU = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"


@dataclass(frozen=True, slots=True)
class Options:
    """Fixed for the life of the process."""

    nodes: int = 3
    gpus: int = 8
    product: str = "NVIDIA-H100-80GB-HBM3"
    cpu: str = "64"
    memory: str = "512Gi"
    pods: int = 250
    prefix: str = "gpu-node-"
    """Nodes are called `<prefix>1`, `<prefix>2`, …; two processes need two prefixes."""
    start_delay_seconds: float = 1.0
    """From binding to running: what pulling and starting take on a real node."""
    back_off_seconds: float = 10.0
    lease_seconds: float = 10.0
    events_per_second: float = 50.0
    """How many Events all of them write at most; 0: none, where their cost would be measured."""

    def node_names(self) -> list[str]:
        """Return the names of all nodes that this process plays."""
        return [f"{self.prefix}{number}" for number in range(1, self.nodes + 1)]
