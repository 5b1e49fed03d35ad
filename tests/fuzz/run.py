"""`make fuzz`: every route of the API with thousands of generated requests, by its document.

A `web` process as in production, which requires tokens, with its workers; schemathesis sends valid
and invalid requests as operator, as user and without a token. A response that the document does
not list is a failure, and so is any response except a rejection to a token without the
required scope.
"""

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuplatform.dev.embedded.ports import LOOPBACK
from tests.acceptance.platform import RunningPlatform

SCHEMA: Final = "/api/v1/schema"
HERE: Final = Path(__file__).parent
FOR_OPERATORS: Final = "^/api/v1/(operator/|serverless/invocations/[^/]+/replay$)"
FOR_USERS: Final = "^/api/v1/(?!operator/|serverless/invocations/[^/]+/replay$)"
PUBLIC: Final = "$|health$|serverless/invocations/[^/]+/result$"
"""The root, health, and results, whose links are signed."""
GUARDED: Final = f"^/api/v1/(?!{PUBLIC})"
OF_ANY_TOKEN: Final = "me$|tokens(/|$)"
"""The routes that any token may call."""


@dataclass(frozen=True, slots=True)
class Run:
    """The scopes of the token, the addresses, and whether each request is rejected."""

    scopes: Sequence[str]
    addresses: str
    is_refused: bool = False


RUNS: Final = (
    Run(["operator"], FOR_OPERATORS),
    Run(["user"], FOR_USERS),
    Run(["user"], FOR_OPERATORS, is_refused=True),
    Run(["operator"], f"{FOR_USERS}(?!{PUBLIC}|{OF_ANY_TOKEN})", is_refused=True),
    Run([], GUARDED, is_refused=True),
)
TIMEOUT_SECONDS: Final = 70
"""A request for a unit with `wait=ready` waits for at most 60 seconds."""
REFUSED_SHARE: Final = 10
"""A rejection does not depend on the request: a tenth of the examples is enough."""
PRODUCTION: Final = {
    "GPUPLATFORM_DEV": "0",
    "GPUPLATFORM_SECRET_KEY": "only-for-a-platform-that-ends-with-this-run-" + "k" * 20,
    "GPUPLATFORM_ALLOWED_HOSTS": LOOPBACK,
    # Generated functions have no workers: each synchronous invocation waits this long.
    "GPUPLATFORM_SYNC_WAIT_SECONDS": "1",
}


def start(platform: RunningPlatform) -> None:
    """Start everything, and restart `web` as in production."""
    platform.start_all()
    platform.add_spec("h100-1g")  # The GPU spec of the examples.
    platform.kill("web")
    cluster = {"KUBE_MODE": "required", "KUBECONFIG": str(platform.kubeconfig)}
    platform.start("web", further={**PRODUCTION, **cluster})


def fuzz(platform: RunningPlatform, folder: Path, run: Run, options: Namespace) -> int:
    """Return the exit code of schemathesis; its files are in `folder`."""
    config = HERE / ("refused.toml" if run.is_refused else "schemathesis.toml")
    examples = options.max_examples // REFUSED_SHARE if run.is_refused else options.max_examples
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"]
    command += [f"http://{LOOPBACK}:{platform.port}{SCHEMA}", "--no-color"]
    command += ["--include-path-regex", run.addresses]
    command += ["--max-examples", str(max(examples, 1)), "--seed", options.seed]
    command += ["--request-timeout", str(TIMEOUT_SECONDS)]
    if run.scopes:
        command += ["-H", f"Authorization: Bearer {platform.token('default', *run.scopes)}"]
    if run.is_refused:
        command += ["--phases", "fuzzing"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": str(HERE / "oddities.py")}
    words = f"with {' and '.join(run.scopes)} token" if run.scopes else "without a token"
    print(f"\n== {words}: {run.addresses}", flush=True)  # noqa: T201 - it is a command
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def main() -> int:
    """Run every run on a new platform."""
    parser = ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument(
        "--max-examples", type=int, default=200, help="of each operation and phase"
    )
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        Path(folder).chmod(0o755)
        platform = RunningPlatform(Path(folder))
        try:
            start(platform)
            return max([fuzz(platform, Path(folder), run, options) for run in RUNS])
        finally:
            platform.stop_all()


if __name__ == "__main__":
    sys.exit(main())
