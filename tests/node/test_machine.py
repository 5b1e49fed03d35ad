"""What the nodes need of a machine, its control groups and images: without any node."""

import base64
import os
import shlex
import socket
import threading
from pathlib import Path

import pytest
import urllib3

from gpuplatform.dev.embedded.options import Options
from tests.node import archive, builds, cgroups, images, registry, relay, requirements, up
from tests.node.archive import Image
from tests.node.registry import Content


def test_a_machine_without_root_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    sentence = requirements.missing_sentence()

    assert sentence.startswith("Real nodes need root")
    assert sentence.count(". ") == 0


def test_a_missing_command_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "RUN_COMMANDS", {"no-such-command": "no-such-package"})

    sentence = requirements.missing_sentence()

    assert "the command no-such-command (Debian package no-such-package)" in sentence


def test_a_build_needs_no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(requirements, "BUILD_COMMANDS", {"no-such-command": "no-such-package"})

    sentence = requirements.missing_sentence(is_build=True)

    assert "root" not in sentence
    assert "the command no-such-command" in sentence


def unified(root: Path, controllers: str = "cpuset cpu memory pids") -> Path:
    """Create files as version 2 of control groups has them."""
    (root / "cgroup.controllers").write_text(controllers)
    return root


def test_version_2_keeps_the_programs_below_the_group_of_the_node(tmp_path: Path) -> None:
    groups = cgroups.ControlGroups("one", root=unified(tmp_path))

    groups.create()
    unified(tmp_path / "one")
    (tmp_path / "one" / cgroups.MEMBERS).write_text("17\n")
    groups.settle()

    assert groups.names == []
    assert groups.folders == [tmp_path / "one"]
    assert groups.joined == [tmp_path / "one" / "init"]
    assert (tmp_path / "one" / "init" / cgroups.MEMBERS).read_text() == "17"
    assert (tmp_path / cgroups.SUBTREE).read_text() == "+pids"
    assert (tmp_path / "one" / cgroups.SUBTREE).read_text() == "+pids"


def test_missing_controllers_are_named(tmp_path: Path) -> None:
    assert cgroups.missing_controllers(unified(tmp_path, "cpu memory")) == ["cpuset", "pids"]


def test_groups_are_removed_with_those_below_them(tmp_path: Path) -> None:
    (tmp_path / "one" / "two").mkdir(parents=True)

    assert cgroups.remove([tmp_path / "one", tmp_path / "missing"]) == []
    assert not (tmp_path / "one").exists()


def test_an_image_has_the_same_bytes_whenever_it_is_written(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("one")
    image = Image("example.com/one:1", ("/one",), files={"one": program}, links={"bin/a": "b"})

    archive.write(image, tmp_path / "first.tar")
    os.utime(program, (1, 1))
    archive.write(image, tmp_path / "second.tar")

    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()


def test_the_registry_names_an_image_like_its_archive(tmp_path: Path) -> None:
    archive.write(Image("example.com/one:1"), tmp_path / "one.tar")

    content = Content(tmp_path)

    digest = content.manifest("one", "latest")
    assert digest in content.blobs
    assert content.manifest("any", digest or "") == digest
    assert content.manifest("two", "latest") is None


def wanted_images() -> dict[str, Image]:
    return images.images({name: Path(name) for name in ("pause", "app", "busybox")})


def test_no_pull_loads_the_layer_of_another_image_of_the_registry() -> None:
    layers = {
        path: frozenset(image.files)
        for path, image in wanted_images().items()
        if path.startswith(images.REGISTRY)
    }

    assert len(layers) == 3
    assert len(set(layers.values())) == len(layers)


def test_the_printed_command_runs_a_platform_whose_stock_the_nodes_can_start() -> None:
    found = wanted_images().items()
    preloaded = {image.name for path, image in found if path.startswith(images.PRELOADED)}

    *assignments, make, run = shlex.split(up.platform_command())

    environment = dict(one.split("=", 1) for one in assignments)
    assert (make, run) == ("make", "run")
    assert Options.from_environment({**environment, "KUBECONFIG": "/one"}).kubeconfig == "/one"
    assert environment["GPUPLATFORM_RESERVATION_IMAGE"] in preloaded


@pytest.mark.parametrize(
    ("seconds", "is_built", "expected"),
    [
        (builds.CORE_SECONDS, True, True),
        (builds.CORE_SECONDS, False, False),
        (builds.CORE_SECONDS + builds.KUBE_ROUTER_SECONDS, False, True),
    ],
)
def test_the_core_set_builds_kube_router_only_if_there_is_time(
    monkeypatch: pytest.MonkeyPatch, seconds: int, is_built: bool, expected: bool
) -> None:
    monkeypatch.setattr(builds, "is_kube_router_built", lambda: is_built)

    assert builds.has_time_for_policies(seconds) is expected


def test_the_folder_of_an_image_selects_the_behaviour_of_the_registry(tmp_path: Path) -> None:
    archive.write(Image("example.com/one:1"), tmp_path / "one.tar")
    basic = {"Authorization": f"Basic {base64.b64encode(b'robot:a$$b$(UNIT_NAME)').decode()}"}
    wrong = {"Authorization": f"Basic {base64.b64encode(b'robot:a$b').decode()}"}

    with registry.serving(tmp_path, "127.0.0.5") as address:

        def ask(name: str, headers: dict[str, str] | None = None) -> int:
            url = f"http://{address}/v2/{name}/manifests/1"
            return urllib3.request("GET", url, headers=headers, retries=False).status

        anonymous = [ask(f"{folder}one") for folder in ("", *registry.FOLDERS)]
        others = [ask("private/one", basic), ask("private/one", wrong), ask("private/two", basic)]
        challenge = urllib3.request("GET", f"http://{address}/v2/private/one/manifests/1")

    assert anonymous == [200, 200, 401, 403, 429]
    assert others == [200, 401, 404]
    assert challenge.headers["WWW-Authenticate"].startswith("Basic ")


def test_a_relay_copies_in_both_directions() -> None:
    def answer() -> None:
        connection, _ = upstream.accept()
        with connection:
            connection.sendall(connection.recv(100).upper())

    with socket.create_server(("127.0.0.1", 0)) as upstream:
        thread = threading.Thread(target=answer)
        thread.start()
        host, port = upstream.getsockname()
        with (
            relay.relaying(relay.inheritable_listener(), host, port) as listening,
            socket.create_connection((host, listening), timeout=10) as client,
        ):
            client.sendall(b"hello")
            reply = client.recv(100)
        thread.join()

    assert reply == b"HELLO"
