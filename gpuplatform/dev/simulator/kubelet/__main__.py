"""`python -m gpuplatform.dev.simulator.kubelet --kubeconfig FILE …`: run simulated nodes."""

import argparse
import asyncio
import logging
import signal
import sys
from dataclasses import fields
from pathlib import Path

from gpuplatform.dev.simulator.kubelet.client import Access, ApiClient
from gpuplatform.dev.simulator.kubelet.engine import Kubelets
from gpuplatform.dev.simulator.kubelet.options import Options

HELP = {
    "nodes": "number of nodes",
    "gpus": "GPUs per node",
    "resources": "further extended resources per node, such as nvidia.com/mig-1g.10gb=7",
    "product": "value of the node label nvidia.com/gpu.product",
    "cpu": "CPUs per node",
    "memory": "memory per node",
    "pods": "maximum number of pods per node",
    "prefix": "prefix of the node names",
    "start_delay_seconds": "time in seconds from the binding of a pod until it is running",
    "back_off_seconds": "first back-off in seconds, which is doubled up to 5 minutes",
    "lease_seconds": "time in seconds between renewals of a node lease",
    "events_per_second": "maximum number of Events per second; 0 disables Events",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a command-line option for each field of `Options`.

    For example, `start_delay_seconds` becomes `--start-delay`.
    """
    parser.add_argument(
        "--kubeconfig", type=Path, required=True, help="path of the kubeconfig of the API server"
    )
    for option in fields(Options):
        parser.add_argument(
            "--" + option.name.removesuffix("_seconds").replace("_", "-"),
            dest=option.name,
            type=type(option.default),
            default=option.default,
            help=f"{HELP[option.name]} (default: {option.default})",
        )


async def serve(access: Access, options: Options) -> None:
    """Run the simulated nodes until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client = ApiClient(access)
    try:
        await Kubelets(client, options).run(stop)
    finally:
        await client.close()


def main(arguments: list[str]) -> int:
    """Parse the command line and run the simulated nodes."""
    parser = argparse.ArgumentParser(
        prog="kubelet", description="Simulated nodes with GPUs on any Kubernetes API server."
    )
    add_arguments(parser)
    parsed = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    options = Options(**{option.name: getattr(parsed, option.name) for option in fields(Options)})
    asyncio.run(serve(Access.from_kubeconfig(parsed.kubeconfig), options))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
