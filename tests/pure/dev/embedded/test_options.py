from pathlib import Path

import pytest

from gpuplatform.dev.embedded.data_directory import PROJECT_ROOT
from gpuplatform.dev.embedded.errors import StartError
from gpuplatform.dev.embedded.options import Options


def test_without_settings_everything_is_embedded_and_simulated() -> None:
    options = Options.from_environment({})

    assert options.kube_mode == "simulated"
    assert (options.database_url, options.redis_url, options.kubeconfig) == ("", "", "")
    assert options.data.path == PROJECT_ROOT / ".data"
    assert options.wants_demo


def test_an_exported_kubeconfig_alone_changes_nothing() -> None:
    options = Options.from_environment({"KUBECONFIG": "/elsewhere/config"})

    assert options.kube_mode == "simulated"
    assert options.kubeconfig == ""


def test_a_real_cluster_is_explicit_and_gets_no_demo() -> None:
    options = Options.from_environment({"KUBE_MODE": "required", "KUBECONFIG": "/real/config"})

    assert options.kubeconfig == "/real/config"
    assert not options.wants_demo


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, True, id="not set"),
        pytest.param({"DEMO": "0"}, False, id="left out"),
        pytest.param({"KUBE_MODE": "off"}, False, id="no cluster to send it to"),
        pytest.param(
            {"KUBE_MODE": "required", "KUBECONFIG": "x", "DEMO": "1"}, True, id="asked for"
        ),
    ],
)
def test_the_demo(environment: dict[str, str], expected: bool) -> None:
    assert Options.from_environment(environment).wants_demo is expected


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        pytest.param({"KUBE_MODE": "maybe"}, "KUBE_MODE=maybe", id="unknown mode"),
        pytest.param({"KUBE_MODE": "required"}, "requires KUBECONFIG", id="no kubeconfig"),
    ],
)
def test_a_wrong_setting_is_named(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(StartError, match=sentence):
        Options.from_environment(environment)


def test_a_relative_data_directory_belongs_to_the_project() -> None:
    options = Options.from_environment({"GPUPLATFORM_DATA": "elsewhere"})

    assert options.data.path == PROJECT_ROOT / "elsewhere"


def test_an_absolute_data_directory_is_used_unchanged(tmp_path: Path) -> None:
    assert Options.from_environment({"GPUPLATFORM_DATA": str(tmp_path)}).data.path == tmp_path
