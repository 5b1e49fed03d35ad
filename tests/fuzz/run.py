"""`make fuzz`: every route of the API with thousands of odd requests, by its own document.

A `web` as in production, so that a token is asked for, with the workers beside it; schemathesis
sends what the document allows and what it does not. Any answer that it does not have is a failure.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuplatform.embedded.ports import LOOPBACK
from tests.acceptance.platform import RunningPlatform

SCHEMA: Final = "/api/v1/schema"
CONFIG: Final = Path(__file__).with_name("schemathesis.toml")
PRODUCTION: Final = {
    "GPUPLATFORM_DEV": "0",
    "GPUPLATFORM_SECRET_KEY": "only-for-a-platform-that-ends-with-this-run-" + "k" * 20,
    "GPUPLATFORM_ALLOWED_HOSTS": LOOPBACK,
}


def start(platform: RunningPlatform) -> None:
    """Start everything, and `web` anew as in production."""
    platform.start_all()
    platform.kill("web")
    cluster = {"KUBE_MODE": "required", "KUBECONFIG": str(platform.kubeconfig)}
    platform.start("web", further={**PRODUCTION, **cluster})


def fuzz(platform: RunningPlatform, folder: Path, arguments: Sequence[str]) -> int:
    """Return the exit code of schemathesis; what it keeps goes into the folder."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run"]
    command += [f"http://{LOOPBACK}:{platform.port}{SCHEMA}", "--no-color"]
    command += ["-H", f"Authorization: Bearer {platform.token('default')}"]
    return subprocess.run([*command, *arguments], cwd=folder, check=False).returncode


def main() -> int:
    """Run it on a platform of its own."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--max-examples", default="200", help="of each operation and phase")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    arguments = ["--max-examples", options.max_examples, "--seed", options.seed]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        Path(folder).chmod(0o755)
        platform = RunningPlatform(Path(folder))
        try:
            start(platform)
            return fuzz(platform, Path(folder), arguments)
        finally:
            platform.stop_all()


if __name__ == "__main__":
    sys.exit(main())
