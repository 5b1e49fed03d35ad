"""`python -m gpuplatform.dev.simulator.apiserver`: run the API server without Django."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuplatform.dev.simulator.apiserver.server import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command-line options, which the management command also has."""
    parser.add_argument("--port", type=int, default=0, help="port; 0 selects a free port")
    parser.add_argument(
        "--state-dir", type=Path, required=True, help="directory in which the objects are stored"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, required=True, help="path of the kubeconfig to write"
    )


def run(options: argparse.Namespace) -> int:
    """Run the server until SIGTERM or SIGINT, and return the exit code."""
    if os.environ.get("GPUPLATFORM_DEV") != "1":
        sys.stderr.write("The simulator requires development mode. Set GPUPLATFORM_DEV=1.\n")
        return 2
    try:
        asyncio.run(serve(options.port, options.state_dir, options.kubeconfig, _print_line))
    except BlockingIOError:
        sys.stderr.write(
            f"Another simulator uses {options.state_dir}. Stop it, or choose another directory.\n"
        )
        return 1
    except OSError as error:
        sys.stderr.write(f"The simulator cannot start: {error}.\n")
        return 1
    return 0


def _print_line(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run the server."""
    parser = argparse.ArgumentParser(description="A small Kubernetes API server for development.")
    add_arguments(parser)
    return run(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
