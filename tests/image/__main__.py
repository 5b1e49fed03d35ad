"""`make image-check`: build the image's files, start its processes, and ask each for `/livez`.

Without `--image` the instructions of the Dockerfile are executed in a directory, and the
processes run on this machine, so no container engine is required. With `--image` they run in
containers.
"""

import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

from gpuplatform.images import SIDECAR_COMMAND
from serverless.sidecar.__main__ import BAD_SETTINGS
from tests.image.context import context_files
from tests.image.dockerfile import Build, Stage
from tests.image.images import DirectoryImage, EngineImage, Image
from tests.image.platform import OURS, ImagePlatform

REPOSITORY = Path(__file__).parents[2]
LEFT_OUT = ("gpuplatform/dev/", "tests/", "docs/", ".git", ".venv", "requirements/dev")
REQUIRED = {
    *("manage.py", "gpuplatform/processes/webserver.py", "templates/admin/index.html"),
    "data/static/adminkit/theme.css",
}
ENTRY_POINTS = {"sidecar": "serverless.sidecar.__main__", "echo": "serverless.examples.echo"}
UNUSED_BY_THE_SIDECAR = ("django", "kubernetes", "celery")


def say(text: str) -> None:
    """Print a step."""
    print(f"-- {text}", flush=True)  # noqa: T201 - it is a command


def build(folder: Path, python: str) -> Image:
    """Execute the Dockerfile; check the stages for the pods of functions."""
    say(f"carrying out the Dockerfile with {python}")
    made = Build(REPOSITORY, context_files(REPOSITORY), python)
    made.run(folder)
    for name, module in ENTRY_POINTS.items():
        check_entry_point(made.stages[name], module)
    for name in ("platform", "sidecar"):
        check_sidecar_command(made.stages[name])
    check_offline_command(made.stages["platform"], folder)
    return DirectoryImage(made.stages["platform"])


def check_entry_point(stage: Stage, module: str) -> None:
    """Load a module of a stage, without the packages that only the platform has."""
    program = (
        f"import sys, {module}\nfrom importlib.util import find_spec\n"
        f"sys.exit(' '.join(name for name in {UNUSED_BY_THE_SIDECAR} if find_spec(name)) or 0)"
    )
    command = ["python", "-c", program]
    subprocess.run(command, cwd=stage.path("."), env=stage.environment(), check=True)


def check_sidecar_command(stage: Stage) -> None:
    """Run the sidecar as its pods do: without settings it reports them and ends."""
    ended = subprocess.run(
        SIDECAR_COMMAND, cwd=stage.path("."), env=stage.environment(), check=False
    )
    assert ended.returncode == BAD_SETTINGS, f"the sidecar ended with {ended.returncode}"


def check_offline_command(stage: Stage, folder: Path) -> None:
    """Run a command as docs/deploy.md does before the first installation: without any server."""
    subprocess.run(
        ["python", "manage.py", "nats_accounts", "--new-seed"],
        cwd=stage.path("."),
        env={**stage.environment(), "GPUPLATFORM_DEV": "1", "GPUPLATFORM_DATA": str(folder)},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def check_files(image: Image) -> None:
    """Fail if the image lacks a required file or contains a file of development."""
    files = image.files()
    superfluous = [name for name in files if name.startswith(LEFT_OUT)]
    assert not superfluous, f"not for the image: {superfluous[:5]}"
    assert set(files) >= REQUIRED, f"missing: {REQUIRED - set(files)}"
    say(f"the image has {len(files)} files below /app")


def check_processes(platform: ImagePlatform) -> None:
    """Start every process; fail if one is not alive, not ready, or does not end in order."""
    say("starting the servers and every process")
    platform.start_all()
    platform.wait(lambda: not list(platform.not_alive()), "every process to answer /livez")
    say("every process answers /livez, and /api/v1/health is ready")
    codes = platform.stop_in_order()
    assert not any(codes.values()), f"exit codes after SIGTERM: {codes}"
    say("every process ended with exit code 0 after SIGTERM")


def main() -> int:
    """Check the image in a temporary directory."""
    parser = ArgumentParser(prog="make image-check", description=__doc__)
    parser.add_argument("--python", default="python3", help="interpreter of the image's version")
    parser.add_argument("--image", default="", help="an image of the container engine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        platform = ImagePlatform(folder, REPOSITORY)
        image = (
            EngineImage(options.image, platform.kubeconfig)
            if options.image
            else build(folder / "build", options.python)
        )
        try:
            check_files(image)
            platform.use(image)
            check_processes(platform)
        except BaseException:
            log = folder / "log"
            say("the end of the log:")
            sys.stdout.write(log.read_text(errors="replace")[-8000:] if log.exists() else "")
            raise
        finally:
            platform.stop_all()
            image.end(OURS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
