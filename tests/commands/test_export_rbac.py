"""`export_rbac` writes the declared accounts, and `--check` detects differences."""

from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import CommandError, call_command

from gpuplatform.deployment.permissions import ACCOUNTS, Place
from gpuplatform.kube.kinds import SECRET


def export(*arguments: str) -> str:
    output = StringIO()
    call_command("export_rbac", *arguments, stdout=output)
    return output.getvalue()


def test_the_checked_in_files_match_the_rights() -> None:
    assert "match" in export("--check")


def test_writes_a_file_for_each_process_and_then_nothing(tmp_path: Path) -> None:
    export("--directory", str(tmp_path))

    written = {path.relative_to(tmp_path / "rbac") for path in tmp_path.glob("rbac/**/*.yaml")}
    assert written == {Path(one.component, f"{one.process}.yaml") for one in ACCOUNTS}
    assert export("--directory", str(tmp_path)) == ""


def test_check_names_the_file_that_differs(tmp_path: Path) -> None:
    export("--directory", str(tmp_path))
    (tmp_path / "rbac" / "web.yaml").write_text("something else\n")

    with pytest.raises(CommandError, match=r"web\.yaml\. Run 'make manifests'"):
        export("--check", "--directory", str(tmp_path))


def test_no_process_may_list_secrets_or_grant_permissions() -> None:
    permissions = [
        (account.process, permission) for account in ACCOUNTS for permission in account.permissions
    ]
    rules = [permission.rule() for _, permission in permissions]
    secrets = [
        (process, permission) for process, permission in permissions if permission.kind is SECRET
    ]

    assert not any("*" in {*rule["resources"], *rule["verbs"]} for rule in rules)
    assert not any({"escalate", "bind", "impersonate"} & set(rule["verbs"]) for rule in rules)
    assert not any("rbac.authorization.k8s.io" in rule["apiGroups"] for rule in rules)
    # By name, where functions of tenants are, and by the process that writes them.
    assert all((process, r.place) == ("operations", Place.TENANTS) for process, r in secrets)
    assert not any({"list", "watch"} & set(one.verbs) for _, one in secrets)


def test_bindings_for_another_namespace_omit_it(tmp_path: Path) -> None:
    export("--directory", str(tmp_path))

    found = list(yaml.safe_load_all((tmp_path / "namespace" / "rolebindings.yaml").read_text()))
    assert found
    assert not any("namespace" in one["metadata"] for one in found)
