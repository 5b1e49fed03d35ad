"""`python -m gpuplatform.dev.simulator.apiserver`: the API server without Django."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuplatform.dev.simulator.apiserver.server import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the management command uses them too."""
    parser.add_argument("--port", type=int, default=0, help="port; 0 selects a free one")
    parser.add_argument(
        "--state-dir", type=Path, required=True, help="directory that stores the objects"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, required=True, help="file to write once the server is ready"
    )


def run(options: argparse.Namespace) -> int:
    """Serve until a signal; return the exit code."""
    if os.environ.get("GPUPLATFORM_DEV") != "1":
        sys.stderr.write("The simulator runs in development mode only: set GPUPLATFORM_DEV=1.\n")
        return 2
    try:
        asyncio.run(serve(options.port, options.state_dir, options.kubeconfig, _say))
    except BlockingIOError:
        sys.stderr.write(
            f"Another simulator uses {options.state_dir}. Stop it, or choose another.\n"
        )
        return 1
    except OSError as error:
        sys.stderr.write(f"The simulator cannot start: {error}.\n")
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description="A small Kubernetes API server for development.")
    add_arguments(parser)
    return run(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
