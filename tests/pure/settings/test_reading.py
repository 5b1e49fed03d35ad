"""All errors of the settings are reported together, and the origin of each value is known."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuplatform import __version__
from gpuplatform.configfile import CONFIG_VARIABLE
from gpuplatform.settings.reading import (
    MASK,
    RUNNING,
    effective_settings,
    load_environment,
    masked,
)

SOUND = {
    "GPUPLATFORM_SECRET_KEY": "5f1c9e07ab8d24631f0e9c7d5ab8d246",
    "GPUPLATFORM_ALLOWED_HOSTS": "a.example, b.example",
    "DATABASE_URL": "postgres://me:geheim@db/app",
    "REDIS_URL": "redis://:geheim@broker:6379/0",
}


class Process:
    """A process that reads its settings."""

    def __init__(self, patch: pytest.MonkeyPatch, directory: Path) -> None:
        self._patch = patch
        self.file = directory / "settings.yaml"

    def configure(self, environment: Mapping[str, str], file: str = "") -> None:
        for name in list(os.environ):
            if name.startswith(("GPUPLATFORM_", "KUBE", "DATABASE_URL", "REDIS_URL", "PORT")):
                self._patch.delenv(name)
        # Excludes a platform that runs in this folder.
        self._patch.setenv("GPUPLATFORM_DATA", str(self.file.parent))
        for name, value in environment.items():
            self._patch.setenv(name, value)
        if file:
            self.file.write_text(file)
            self._patch.setenv(CONFIG_VARIABLE, str(self.file))


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Process:
    return Process(monkeypatch, tmp_path)


def errors() -> str:
    with pytest.raises(SystemExit) as ended:
        load_environment()
    return str(ended.value)


def test_all_errors_are_reported_together(process: Process) -> None:
    process.configure(
        {"GPUPLATFORM_LEASE_SECONDS": "1", "GPUPLATFORM_LOGLEVEL": "INFO", "PORT": "x"},
        "KUBE_MODE: simulated\nDATABASE_URL: mysql://me:geheim@db/app\nNOTHING: 1\n",
    )

    output = errors()

    assert output.startswith("The settings are invalid:\n")
    for expected in (
        "GPUPLATFORM_LEASE_SECONDS: Input should be greater than or equal to 3",
        "GPUPLATFORM_LOGLEVEL (environment): unknown setting",
        "; did you mean GPUPLATFORM_LOG_LEVEL?",
        "PORT: Input should be a valid integer",
        "DATABASE_URL: must have the form postgres://user:password@host:port/name",
        f"NOTHING ({process.file}): unknown setting",
        "KUBE_MODE: the simulated cluster is available in development mode only",
        "GPUPLATFORM_SECRET_KEY: is missing.",
        "GPUPLATFORM_ALLOWED_HOSTS: is missing.",
        "REDIS_URL: is missing.",
    ):
        assert expected in output, output
    assert "geheim" not in output


@pytest.mark.parametrize(
    "url",
    [
        "postgres://me:ge/heim@db/app",
        "postgres://me:geheim@[db/app",
        "postgres://me:geheim@db:0/app",
        "postgres://me:geheim@db:99999/app",
        "geheim",
    ],
)
def test_the_error_about_an_invalid_address_does_not_contain_it(
    process: Process, url: str
) -> None:
    process.configure({**SOUND, "DATABASE_URL": url})

    output = errors()

    assert "DATABASE_URL: must have the form" in output
    assert "heim" not in output


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("GPUPLATFORM_API_SERVICE_HOST", "10.0.0.1", id="service host"),
        pytest.param("GPUPLATFORM_API_SERVICE_PORT", "80", id="service port"),
        pytest.param("GPUPLATFORM_API_SERVICE_PORT_HTTP", "80", id="named service port"),
        pytest.param("GPUPLATFORM_API_PORT", "tcp://10.0.0.1:80", id="port"),
        pytest.param("GPUPLATFORM_API_PORT_80_TCP_ADDR", "10.0.0.1", id="address"),
        pytest.param("GPUPLATFORM_TEST_CHANGES", "5", id="of the tests"),
        pytest.param("GPUPLATFORM_RUN", "abc", id="of the runner"),
    ],
)
def test_variables_of_others_are_not_errors(process: Process, name: str, value: str) -> None:
    process.configure({**SOUND, name: value})

    assert load_environment().allowed_hosts == ["a.example", "b.example"]


def test_a_wrong_port_is_not_mistaken_for_one_of_kubernetes(process: Process) -> None:
    process.configure({**SOUND, "GPUPLATFORM_API_PORT": "80"})

    assert "GPUPLATFORM_API_PORT (environment): unknown setting" in errors()


def test_the_environment_overrides_the_file_which_overrides_the_defaults(
    process: Process,
) -> None:
    process.configure(
        {**SOUND, "GPUPLATFORM_LOG_LEVEL": "ERROR", "KUBE_MODE": ""},
        "GPUPLATFORM_LOG_LEVEL: DEBUG\nKUBE_MODE: off\nPORT: 81\n",
    )

    settings = load_environment()
    shown = {row.name: (row.value, row.origin) for row in effective_settings()}

    assert (settings.gpuplatform_log_level, settings.kube_mode, settings.port) == (
        "ERROR",
        "off",
        81,
    )
    assert shown["GPUPLATFORM_LOG_LEVEL"] == ("ERROR", "environment")
    assert shown["KUBE_MODE"] == ("off", str(process.file))
    assert shown["GPUPLATFORM_LEASE_SECONDS"] == ("30", "default")
    assert shown["GPUPLATFORM_SECRET_KEY"] == (MASK, "environment")
    assert shown["DATABASE_URL"] == (f"postgres://me:{MASK}@db/app", "environment")


def test_development_mode_is_the_origin_of_the_values_that_it_sets(
    process: Process, tmp_path: Path
) -> None:
    process.configure({"GPUPLATFORM_DEV": "1", "GPUPLATFORM_DATA": str(tmp_path)})

    shown = {row.name: (row.value, row.origin) for row in effective_settings()}

    assert shown["KUBE_MODE"] == ("simulated", "development mode")
    assert shown["KUBECONFIG"] == (str(tmp_path / "kubeconfig"), "development mode")
    assert shown["GPUPLATFORM_SECRET_KEY"] == (MASK, "development mode")
    assert shown["GPUPLATFORM_METRICS_HOST"] == ("127.0.0.1", "development mode")
    assert shown["DATABASE_URL"] == ("", "default")


ADDRESSES = {
    "DATABASE_URL": "postgres://me:geheim@127.0.0.1:5001/app",
    "REDIS_URL": "redis://127.0.0.1:5002/0",
    "NATS_URL": "nats://127.0.0.1:5003",
    "KUBE_MODE": "required",
    "KUBECONFIG": "/theirs/config",
    "PORT": "5004",
}


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """The data directory of a running platform."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "addresses.json").write_text(json.dumps(ADDRESSES))
    return tmp_path


def test_a_command_joins_the_running_platform(process: Process, running: Path) -> None:
    process.configure({"GPUPLATFORM_DATA": str(running)})

    settings = load_environment()
    shown = {row.name: (row.value, row.origin) for row in effective_settings()}

    assert settings.gpuplatform_dev
    assert settings.effective_url("DATABASE_URL") == ADDRESSES["DATABASE_URL"]
    assert shown["GPUPLATFORM_DEV"] == ("True", RUNNING)
    for name in ("REDIS_URL", "NATS_URL", "KUBE_MODE", "KUBECONFIG", "PORT"):
        assert shown[name] == (ADDRESSES[name], RUNNING)
    assert shown["GPUPLATFORM_SECRET_KEY"] == (MASK, "development mode")
    assert shown["GPUPLATFORM_LEASE_SECONDS"] == ("30", "default")


def test_given_values_override_the_running_platform(process: Process, running: Path) -> None:
    process.configure(
        {"GPUPLATFORM_DATA": str(running), "GPUPLATFORM_DEV": "1", "PORT": "8080"},
        "KUBE_MODE: off\n",
    )

    shown = {row.name: (row.value, row.origin) for row in effective_settings()}

    assert shown["PORT"] == ("8080", "environment")
    assert shown["KUBE_MODE"] == ("off", str(process.file))
    assert shown["REDIS_URL"] == (ADDRESSES["REDIS_URL"], RUNNING)


def test_an_exported_kubeconfig_is_not_used_with_the_mode_of_another(
    process: Process, running: Path
) -> None:
    process.configure({"GPUPLATFORM_DATA": str(running), "KUBECONFIG": "/mine/config"})

    assert load_environment().effective_kubeconfig() == ADDRESSES["KUBECONFIG"]


def test_a_command_reports_that_no_platform_runs(process: Process) -> None:
    process.configure({})

    assert "GPUPLATFORM_DEV: is not set" in errors()


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"GPUPLATFORM_ROLE": "web"}, id="web"),
        pytest.param({"GPUPLATFORM_ROLE": "worker"}, id="worker"),
        pytest.param({"GPUPLATFORM_DEV": "0"}, id="not in development mode"),
        *(pytest.param({name: value}, id=name) for name, value in SOUND.items()),
    ],
)
def test_no_process_of_production_joins_it(
    process: Process, running: Path, given: Mapping[str, str]
) -> None:
    process.configure({"GPUPLATFORM_DATA": str(running), **given})

    assert "missing" in errors()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://me:a@b@db:5/app?x=y", f"postgres://me:{MASK}@db:5/app?x=y"),
        (
            "postgres://me@db/app?password=x&sslkey=y",
            f"postgres://me@db/app?password={MASK}&sslkey={MASK}",
        ),
        ("redis://:p@h", f"redis://:{MASK}@h"),
        ("redis://h:1/0", "redis://h:1/0"),
        ("", ""),
    ],
)
def test_passwords_in_addresses_are_masked(text: str, shown: str) -> None:
    assert masked("DATABASE_URL", text) == shown


@pytest.mark.parametrize(
    ("given", "mode"),
    [("Required", "required"), (" OFF ", "off"), ("auto", "auto"), ("  ", "auto")],
)
def test_case_and_blanks_of_a_mode_are_ignored(process: Process, given: str, mode: str) -> None:
    process.configure({**SOUND, "KUBE_MODE": given})
    assert load_environment().effective_kube_mode() == mode

    process.configure(SOUND, f"KUBE_MODE: '{given}'\n")
    assert load_environment().effective_kube_mode() == mode


def test_no_spelling_allows_the_simulated_cluster_in_production(process: Process) -> None:
    process.configure({**SOUND, "KUBE_MODE": " Simulated"})

    assert "available in development mode only" in errors()


def test_an_unknown_mode_is_rejected_with_the_known_ones(process: Process) -> None:
    process.configure({**SOUND, "KUBE_MODE": "of f"})

    assert "KUBE_MODE: Input should be 'auto', 'required', 'off' or 'simulated'" in errors()


def test_images_have_defaults_of_the_release(process: Process) -> None:
    process.configure(SOUND)

    found = load_environment()

    assert found.gpuplatform_sidecar_image == f"gpu-platform:v{__version__}"
    assert "@sha256:" in found.gpuplatform_reservation_image
    assert found.pull_secrets == ()


def test_pool_namespaces_are_names_and_once(process: Process) -> None:
    process.configure({**SOUND, "GPUPLATFORM_POOL_NAMESPACES": " pools, team,pools "})

    assert load_environment().pool_namespaces == ("pools", "team")


def test_pull_secrets_are_names_in_their_order_and_once(process: Process) -> None:
    process.configure({**SOUND, "GPUPLATFORM_PULL_SECRETS": " registry, mirror,,registry "})

    assert load_environment().pull_secrets == ("registry", "mirror")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GPUPLATFORM_SIDECAR_IMAGE", "https://registry.example.com/sidecar"),
        ("GPUPLATFORM_RESERVATION_IMAGE", "Busybox:1"),
        ("GPUPLATFORM_PULL_SECRETS", "registry,not_a_name"),
    ],
)
def test_an_invalid_image_or_secret_is_reported(process: Process, name: str, value: str) -> None:
    process.configure({**SOUND, name: value})

    assert [line.strip().split(":")[0] for line in errors().splitlines()[1:]] == [name]


@pytest.mark.parametrize(
    "key",
    [
        "x",
        "k" * 64,
        "FIFTY-RANDOM-CHARACTERS-FIFTY-RANDOM-CHARACTERS",
        "change-me-" * 4,
        "5f1c9e" * 5,
    ],
    ids=["short", "one-letter", "example", "words", "30-characters"],
)
def test_a_key_that_can_be_guessed_is_refused(process: Process, key: str) -> None:
    process.configure({**SOUND, "GPUPLATFORM_SECRET_KEY": key})

    assert "GPUPLATFORM_SECRET_KEY" in errors()


def test_a_key_of_32_random_digits_is_accepted(process: Process) -> None:
    process.configure(SOUND)

    assert load_environment().effective_secret_key() == SOUND["GPUPLATFORM_SECRET_KEY"]
