"""`export` writes the generated files, and `--check` detects every difference."""

from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import CommandError, call_command

from gpuplatform.api.exceptions import envelope
from gpuplatform.deployment.permissions import ACCOUNTS
from gpuplatform.dev.generated.dashboards import DASHBOARDS
from gpuplatform.dev.generated.files import GENERATED
from gpuplatform.dev.generated.settings_page import settings_page
from gpuplatform.errors import http_errors
from gpuplatform.operations.phases import OperationPhase, OperationWait
from gpuplatform.settings.environment import Environment
from inventory.phases import PoolPhase, PoolReason
from serverless.phases import FailureClass, FunctionReason, FunctionWait, InvocationState
from units.phases import QueueCause, UnitPhase, UnitReason, UnitWait

EXPLAINED = (
    *(OperationPhase, OperationWait, PoolPhase, PoolReason, UnitPhase, UnitReason, UnitWait),
    *(FunctionReason, FunctionWait, FailureClass, InvocationState, QueueCause),
)
POOL_CRD = "deploy/crd/runtime.lokiwager.io_stockpools.yaml"


def export(*arguments: str) -> str:
    output = StringIO()
    call_command("export", *arguments, stdout=output)
    return output.getvalue()


@pytest.mark.parametrize("name", GENERATED)
def test_the_repository_contains_what_the_code_generates(name: str) -> None:
    export(name, "--check")


def test_a_setting_that_is_a_number_has_its_range() -> None:
    rows = [row.split(" | ") for row in settings_page().splitlines() if row.startswith("| `")]
    values = {row[0].strip("| `"): row[2] for row in rows if len(row) == 4}

    assert values["GPUPLATFORM_RATE_OPERATOR"] == "at least 0"
    assert values["GPUPLATFORM_RATE_BURST_SECONDS"] == "1 to 60"
    assert [name for name, value in values.items() if value == "path"] == ["GPUPLATFORM_DATA"]


@pytest.mark.parametrize("name", GENERATED)
def test_writes_each_file_once(name: str, tmp_path: Path) -> None:
    wrote = export(name, "--directory", str(tmp_path)).splitlines()

    files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(wrote) == sorted(f"wrote {file}" for file in files)
    assert len(files) == len(GENERATED[name]())
    assert export(name, "--directory", str(tmp_path)) == ""


@pytest.mark.parametrize("content", [None, "something else\n"], ids=["missing", "stale"])
@pytest.mark.parametrize("name", GENERATED)
def test_check_names_a_missing_or_stale_file_and_does_not_write_it(
    name: str, content: str | None, tmp_path: Path
) -> None:
    export("--directory", str(tmp_path))
    first, *_ = GENERATED[name]()
    path = tmp_path / first
    path.unlink()
    if content is not None:
        path.write_text(content)

    with pytest.raises(CommandError, match=f"{first}. Run 'make manifests docs'"):
        export("--check", "--directory", str(tmp_path))

    assert (path.read_text() if path.exists() else None) == content


def test_a_crd_file_is_valid_yaml(tmp_path: Path) -> None:
    export("crds", "--directory", str(tmp_path))

    crd = yaml.safe_load((tmp_path / POOL_CRD).read_text())
    assert crd["metadata"]["name"] == "stockpools.runtime.lokiwager.io"


def test_each_process_and_each_dashboard_has_a_file(tmp_path: Path) -> None:
    export("rbac", "dashboards", "--directory", str(tmp_path))

    deploy = tmp_path / "deploy"
    accounts = {file.relative_to(deploy / "rbac") for file in deploy.glob("rbac/**/*.yaml")}
    assert accounts == {Path(one.component, f"{one.process}.yaml") for one in ACCOUNTS}
    dashboards = {file.stem for file in (deploy / "monitoring" / "dashboards").iterdir()}
    assert dashboards == {one.name for one in DASHBOARDS}


def test_bindings_for_another_namespace_omit_it(tmp_path: Path) -> None:
    export("rbac", "--directory", str(tmp_path))

    bindings = tmp_path / "deploy" / "namespace" / "rolebindings.yaml"
    found = list(yaml.safe_load_all(bindings.read_text()))
    assert found
    assert not any("namespace" in one["metadata"] for one in found)


def test_the_page_of_settings_has_every_setting() -> None:
    (page,) = GENERATED["settings"]().values()

    for name in Environment.model_fields:
        assert f"| `{name.upper()}` |" in page


def test_the_page_of_reasons_has_every_value_and_every_code() -> None:
    (page,) = GENERATED["reasons"]().values()

    rows = page.splitlines()
    for value in (value for values in EXPLAINED for value in values):
        assert any(row.startswith(f"| `{value.value}` | ") for row in rows), value
    for code, kind in http_errors().items():
        assert f"| `{code}` | {kind.http_status} | " in page
        assert envelope(kind.example())["error"]["code"] == code
