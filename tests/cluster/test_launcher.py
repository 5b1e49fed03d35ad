"""The sources of the programs of a real control plane, and the error without any."""

from pathlib import Path

import pytest

from tests.cluster.controlplane import programs


def test_programs_of_kubebuilder_assets_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in programs.COMPONENTS:
        (tmp_path / name).touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    found = programs.programs()

    assert found["etcd"] == [str(tmp_path / "etcd")]
    assert set(found) == set(programs.COMPONENTS)


def test_missing_assets_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etcd").touch()
    (tmp_path / "kube-apiserver").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    with pytest.raises(programs.CannotStart) as refusal:
        programs.programs()

    assert "has no kube-controller-manager, kube-scheduler." in str(refusal.value)


def test_missing_go_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")

    with pytest.raises(programs.CannotStart) as refusal:
        programs.programs()

    assert str(refusal.value).startswith("A real control plane needs Go")


def test_a_built_binary_is_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(programs, "_build", lambda binary: binary.touch())

    first = programs.built_binary()
    monkeypatch.setenv("PATH", "")

    assert programs.built_binary() == first
    assert tmp_path in first.parents
