"""`python -m gpuplatform.dev.simulator.kubelet --kubeconfig FILE …`: plays nodes until stopped."""

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
    "nodes": "how many nodes",
    "gpus": "GPUs a node",
    "product": "the label nvidia.com/gpu.product",
    "cpu": "CPUs a node",
    "memory": "memory a node",
    "pods": "pods a node",
    "prefix": "what the nodes' names begin with",
    "start_delay_seconds": "from binding to running",
    "back_off_seconds": "the first back-off; doubled up to 5 minutes",
    "lease_seconds": "how often a node's lease is renewed",
    "events_per_second": "Events that are written at most; 0 for none",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare one argument an option, `start_delay_seconds` as `--start-delay`."""
    parser.add_argument("--kubeconfig", type=Path, required=True, help="how to reach the server")
    for option in fields(Options):
        parser.add_argument(
            "--" + option.name.removesuffix("_seconds").replace("_", "-"),
            dest=option.name,
            type=type(option.default),
            default=option.default,
            help=f"{HELP[option.name]} (default: {option.default})",
        )


async def serve(access: Access, options: Options) -> None:
    """Run until SIGTERM or SIGINT."""
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
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(
        prog="kubelet", description="Plays nodes with GPUs on any Kubernetes API server."
    )
    add_arguments(parser)
    parsed = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    options = Options(**{option.name: getattr(parsed, option.name) for option in fields(Options)})
    asyncio.run(serve(Access.from_kubeconfig(parsed.kubeconfig), options))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
