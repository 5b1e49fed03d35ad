import pytest

from gpuplatform.dev.simulator.kubelet.behaviour import behaviour_of, full_reference


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        pytest.param("nginx", "docker.io/library/nginx:latest", id="short"),
        pytest.param("me/app:1", "docker.io/me/app:1", id="with a user"),
        pytest.param("localhost:5000/app", "localhost:5000/app:latest", id="with a port"),
        pytest.param("a.b/c/d:1", "a.b/c/d:1", id="full"),
        pytest.param("a.b/c@sha256:" + "0" * 64, "a.b/c@sha256:" + "0" * 64, id="by digest"),
        pytest.param("App:1", "", id="capitals"),
        pytest.param("has blanks", "", id="blanks"),
        pytest.param("", "", id="empty"),
    ],
)
def test_an_image_gets_its_full_reference(image: str, reference: str) -> None:
    assert full_reference(image) == reference


def test_memory_above_the_limit_is_an_out_of_memory_kill() -> None:
    entry = {
        "image": "app",
        "env": [{"name": "SIMULATOR_MEMORY", "value": "1.5Gi"}],
        "resources": {"limits": {"memory": "1024Mi"}},
    }

    end = behaviour_of(entry).exit

    assert end is not None
    assert (end.code, end.reported_reason()) == (137, "OOMKilled")


def test_memory_within_the_limit_is_not_killed() -> None:
    entry = {
        "image": "app",
        "env": [{"name": "SIMULATOR_MEMORY", "value": "512Mi"}],
        "resources": {"limits": {"memory": "1Gi"}},
    }

    assert behaviour_of(entry).exit is None


def test_a_trap_ignores_sigterm() -> None:
    entry = {"image": "app", "command": ["sh", "-c", "trap '' TERM; serve"]}

    assert behaviour_of(entry).ignores_sigterm


def test_hosts_under_invalid_do_not_resolve() -> None:
    error = behaviour_of({"image": "registry.example.invalid/team/app:2"}).pull_error

    assert 'Head "https://registry.example.invalid/v2/team/app/manifests/2"' in error
    assert error.endswith("lookup registry.example.invalid: no such host")
