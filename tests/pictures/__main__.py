"""Creates the images of the README (`make pictures`). The screenshots require Chromium.

The screenshots show the admin of a new platform after the demo and a few requests.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from gpuplatform.dev.embedded.data_directory import remove_data
from tests.acceptance.platform import RunningPlatform
from tests.pictures.parts import drawing

FOLDER: Final = Path(__file__).parents[2] / "docs/pictures"
MOST_BYTES: Final = 200_000
SIZE: Final = {"width": 1280, "height": 754}
STOCK: Final = "/api/v1/operator/stock-units"
UNITS: Final = "/api/v1/gpu-units"
SPECS: Final = "/api/v1/operator/gpu-specs"


def main() -> int:
    """Write the images, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts-only", action="store_true", help="do not create the screenshots")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "parts.svg").write_text(drawing(), encoding="utf-8")
    if options.parts_only:
        return 0
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.stderr.write("The screenshots require Chromium. Install it, or use --parts-only.\n")
        return 1
    folder = Path(tempfile.mkdtemp(prefix="pictures-"))
    platform = RunningPlatform(folder)
    try:
        platform.start_all()
        _work(platform)
        password = (folder / "data/admin-password").read_text().strip()
        return _photograph(f"http://127.0.0.1:{platform.port}", password, chromium)
    finally:
        platform.stop_all()
        remove_data(folder / "data")
        shutil.rmtree(folder, ignore_errors=True)


def _work(platform: RunningPlatform) -> None:
    """Create objects for the screenshots: the demo, a second spec, a warm target and units."""
    url = f"http://127.0.0.1:{platform.port}"
    assert platform.manage("send_demo", "--url", url).returncode == 0
    platform.request("PATCH", f"{SPECS}/h100-1g", {"operationID": "warm-1", "warmTarget": 4})
    platform.add_spec("h100-2g", gpu=2, memory="64Gi")
    seed = {"operationID": "seed-2", "specName": "h100-2g", "replicas": 3}
    platform.request("POST", STOCK, seed)
    for number, spec in enumerate(("h100-1g", "h100-2g", "h100-1g")):
        _create_unit(platform, f"trainer-{number + 1}", spec)
    ready = f"{STOCK}?specName=h100-1g&state=ready"
    platform.wait(lambda: len(platform.request("GET", ready).data) == 4, "the warm target")
    failed = "/api/v1/operator/stockpools?phase=Failed"
    platform.wait(lambda: len(platform.request("GET", failed).data) == 2, "the pools of the demo")


def _create_unit(platform: RunningPlatform, name: str, spec: str) -> None:
    """Create a unit when stock is ready, and wait until the unit is ready."""
    body = {"operationID": name, "name": name, "specName": spec, "image": "docker.io/a/b:1"}
    platform.wait(
        lambda: platform.request("POST", UNITS, body).status in {200, 202}, f"stock for {name}"
    )
    platform.wait(
        lambda: platform.request("GET", f"{UNITS}/{name}").data["phase"] == "Ready", name
    )


def _photograph(url: str, password: str, chromium: str) -> int:
    """Write screenshots in the light and the dark theme. Return 1 if an image is too large."""
    too_large = False
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(
                viewport={"width": SIZE["width"], "height": SIZE["height"]},
                color_scheme="dark" if scheme == "dark" else "light",
                reduced_motion="reduce",
            )
            page.goto(f"{url}/admin/")
            page.fill("[name=username]", "admin")
            page.fill("[name=password]", password)
            page.click("input[type=submit]")
            page.wait_for_load_state("networkidle")
            picture = FOLDER / f"dashboard-{scheme}.png"
            page.screenshot(path=picture)
            too_large = too_large or picture.stat().st_size > MOST_BYTES
            sys.stdout.write(f"{picture.name}: {picture.stat().st_size} bytes\n")
        browser.close()
    return int(too_large)


if __name__ == "__main__":
    sys.exit(main())
