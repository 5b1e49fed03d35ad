"""Rows that mirror custom resources, and what the processes know of cluster and each other.

Lease and due columns are written by `leases` only; everything else of a mirror row by its app's
`services.py` and `mirror.py`.
"""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now
from typing_extensions import override


class LeasedRow(models.Model):
    """A row that one worker at a time works on, and that is worked on when it is due.

    A mark set during a run is not lost: it raises `due_seq`, and the run's end clears `due_at`
    only if `due_seq` is still the one that the run began with.
    """

    due_at = models.DateTimeField(
        null=True, blank=True, help_text="When work is due next; empty: nothing to do."
    )
    due_seq = models.BigIntegerField(default=0, help_text="Raised by every mark.")
    lease_token = models.UUIDField(
        null=True, blank=True, help_text="Whoever holds it may record a result."
    )
    lease_expires_at = models.DateTimeField(
        null=True, blank=True, help_text="After this another worker may take the row."
    )
    failures = models.PositiveIntegerField(
        default=0, help_text="Failures in a row; the back-off grows with them."
    )

    class Meta:
        abstract = True


class MirrorRow(LeasedRow):
    """The copy of one custom resource: its spec and its status, as last observed.

    A row without a uid represents a resource that an open operation is about to create. Rows of
    deleted resources stay as history.
    """

    namespace = models.CharField(max_length=63, help_text="Namespace of the resource.")
    name = models.CharField(max_length=253, help_text="Name of the resource.")
    uid = models.CharField(
        max_length=36, blank=True, help_text="UID of the resource; empty until known."
    )
    generation = models.BigIntegerField(default=0, help_text="Generation of the spec.")
    observed_generation = models.BigIntegerField(
        default=0, help_text="Generation that the status reports."
    )
    resource_version = models.BigIntegerField(
        default=0, help_text="Version of the copy; older copies are ignored."
    )
    reason = models.CharField(max_length=64, blank=True, help_text="The reason of the phase.")
    message = models.TextField(blank=True, help_text="The message of the phase, for people.")
    cause = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="What keeps a pod from running or from being ready; empty: nothing.",
    )
    conditions = models.JSONField(default=list, blank=True, help_text="Kubernetes conditions.")
    phase_since = models.DateTimeField(
        db_default=Now(), help_text="When phase or reason last changed."
    )
    created_at = models.DateTimeField(db_default=Now(), help_text="When it was requested.")
    last_sync_at = models.DateTimeField(
        null=True, blank=True, help_text="When the resource was last copied."
    )
    deletion_requested_at = models.DateTimeField(
        null=True, blank=True, help_text="When its deletion was requested or observed."
    )
    deleted_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When it was observed deleted; the row is history from then on.",
    )

    class Meta:
        abstract = True

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ClusterState(models.Model):
    """The one row about the cluster: does it answer, and does it belong to this database."""

    SINGLETON: ClassVar[int] = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    epoch = models.CharField(
        max_length=36, blank=True, help_text="Names the pair of this database and its cluster."
    )
    epoch_is_established = models.BooleanField(
        default=False, help_text="Whether the cluster has been told the epoch."
    )
    recovery_reason = models.TextField(
        blank=True, help_text="Why nothing may be written until `recover` ran; empty: all is well."
    )
    failures = models.PositiveIntegerField(
        default=0, help_text="How often in a row the cluster did not answer."
    )
    closed_until = models.DateTimeField(
        null=True, blank=True, help_text="Until then nobody asks the cluster; empty: it answers."
    )
    error = models.TextField(blank=True, help_text="What was wrong when it last did not answer.")
    node_count = models.PositiveIntegerField(null=True, help_text="Nodes, as the controller saw.")
    ready_node_count = models.PositiveIntegerField(null=True, help_text="Nodes that are Ready.")
    seen_at = models.DateTimeField(null=True, help_text="When the controller last saw the nodes.")

    class Meta:
        verbose_name_plural = "cluster state"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=models.Q(id=1), name="cluster_state_is_one_row"),
        ]

    @override
    def __str__(self) -> str:
        return "cluster"


class ProcessHeartbeat(models.Model):
    """The last sign of life of a part of the platform, written at most every few seconds."""

    part = models.CharField(
        max_length=32, primary_key=True, help_text="For example `operations` or `beat`."
    )
    seen_at = models.DateTimeField(help_text="When it last lived, by the database's clock.")
    detail = models.CharField(max_length=200, blank=True, help_text="What it said of itself.")

    class Meta:
        ordering: ClassVar[list[str]] = ["part"]

    @override
    def __str__(self) -> str:
        return self.part
