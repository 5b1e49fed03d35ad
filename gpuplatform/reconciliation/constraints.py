"""Database constraints and indexes that the tables of all mirrored resources have."""

from collections.abc import Sequence

from django.db import models
from django.db.models import Q

from gpuplatform.workloads.owner import FAILED


def mirror_constraints(prefix: str, phases: Sequence[str]) -> list[models.BaseConstraint]:
    """Return the constraints of a table of mirrored resources.

    Args:
        prefix: The prefix of the constraint names.
        phases: The allowed phases.
    """
    return [
        models.UniqueConstraint(
            fields=["namespace", "name"],
            condition=Q(deleted_at__isnull=True),
            name=f"{prefix}_name_is_unique",
        ),
        models.UniqueConstraint(
            fields=["uid"], condition=~Q(uid=""), name=f"{prefix}_uid_is_unique"
        ),
        models.CheckConstraint(condition=Q(phase__in=phases), name=f"{prefix}_phase_is_known"),
        models.CheckConstraint(
            condition=~Q(phase=FAILED) | ~Q(reason=""), name=f"{prefix}_failed_says_why"
        ),
    ]


def mirror_indexes(prefix: str) -> list[models.Index]:
    """Return the indexes of a table of mirrored resources, with `prefix` in their names."""
    return [
        models.Index(fields=["due_at"], name=f"{prefix}_due", condition=Q(due_at__isnull=False)),
        models.Index(fields=["phase", "-id"], name=f"{prefix}_phase"),
        models.Index(fields=["deleted_at"], name=f"{prefix}_deleted"),
    ]
