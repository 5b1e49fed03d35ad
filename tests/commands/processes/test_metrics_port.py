"""Each copy serves the sum of all counts, and a port in use is an error of one sentence."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.metrics import recorder
from gpuplatform.metrics.declared import HTTP_REQUESTS, HTTP_SECONDS
from gpuplatform.metrics.server import MetricsPort

pytestmark = [pytest.mark.processes, pytest.mark.long]
ROOT = Path(__file__).parents[3]
COPIES, EACH = 3, 40


class Serving:
    """A process with copies that count and serve."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("serving.py")), str(COPIES), str(EACH)],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "DJANGO_SETTINGS_MODULE": "gpuplatform.settings",
                "GPUPLATFORM_METRICS_PORT": str(free_port()),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        port, directory = self.process.stdout.readline().split()
        self.url, self.directory = f"http://{LOOPBACK}:{port}", Path(directory)

    def ask(self, path: str = "/metrics") -> str:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            text: str = answer.read().decode()
            return text

    def end(self) -> None:
        self.process.communicate(timeout=20)


@pytest.fixture
def serving() -> Iterator[Serving]:
    serving = Serving()
    yield serving
    serving.end()


def test_every_scrape_is_the_sum_over_all_children_also_ended_ones(serving: Serving) -> None:
    for _ in range(10):
        families = {f.name: f for f in text_string_to_metric_families(serving.ask())}

        requests = families[HTTP_REQUESTS.name.removesuffix("_total")].samples
        seconds = {s.name: s.value for s in families[HTTP_SECONDS.name].samples}
        assert [sample.value for sample in requests] == [COPIES * EACH]
        assert seconds[f"{HTTP_SECONDS.name}_count"] == COPIES * EACH


def test_other_paths_are_not_found(serving: Serving) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        serving.ask("/")

    with refused.value:
        assert refused.value.code == 404


def test_a_silent_client_blocks_one_child_only(serving: Serving) -> None:
    host, port = serving.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))):
        assert "gpuplatform_http" in serving.ask()


def test_the_files_are_deleted_with_the_process(serving: Serving) -> None:
    assert list(serving.directory.iterdir())

    serving.end()

    assert not serving.directory.exists()


def test_a_port_in_use_is_an_error() -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()

        with pytest.raises(
            SystemExit, match=r"GPUPLATFORM_METRICS_PORT\): Address already in use"
        ):
            MetricsPort(LOOPBACK, other.getsockname()[1])


def test_without_a_port_nothing_is_counted_and_nothing_loaded() -> None:
    recorder.count(HTTP_REQUESTS, method="GET", route="/", status="200")
    recorder.observe(HTTP_SECONDS, 1, method="GET", route="/")

    assert recorder._Recorder.created == {}
