"""Models of mirror rows, of the state of the cluster, and of heartbeats.

Only `leases` writes the columns of the lease and the due time. The services and the mirror of each
app write the other columns of a mirror row.
"""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now
from typing_extensions import override


class LeasedRow(models.Model):
    """A row that one worker at a time processes when the row is due.

    Marking a row due increments `due_seq`. The end of a run clears `due_at` only if `due_seq` is
    unchanged, so that a mark during the run is not lost.
    """

    due_at = models.DateTimeField(
        null=True, blank=True, help_text="When work is due next; empty: no work."
    )
    due_seq = models.BigIntegerField(default=0, help_text="Incremented by every mark.")
    lease_token = models.UUIDField(
        null=True, blank=True, help_text="The worker with this token may record a result."
    )
    lease_expires_at = models.DateTimeField(
        null=True, blank=True, help_text="After this another worker may take the row."
    )
    failures = models.PositiveIntegerField(
        default=0, help_text="Consecutive failures; the backoff grows with them."
    )

    class Meta:
        abstract = True


class MirrorRow(LeasedRow):
    """The copy of the last observed spec and status of a custom resource.

    A row without a UID represents a resource that an open operation creates. The rows of deleted
    resources remain as history.
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
    """The reachability and the epoch of the cluster, in a single row."""

    SINGLETON: ClassVar[int] = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    epoch = models.CharField(
        max_length=36,
        blank=True,
        help_text="Identity of this pair of database and cluster.",
    )
    epoch_is_established = models.BooleanField(
        default=False, help_text="Whether the cluster has stored the epoch."
    )
    recovery_reason = models.TextField(
        blank=True,
        help_text="Why a recovery is required; empty: the epochs match.",
    )
    failures = models.PositiveIntegerField(
        default=0, help_text="Consecutive requests that the cluster did not answer."
    )
    closed_until = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time of the next probe; empty: the cluster answers.",
    )
    error = models.TextField(blank=True, help_text="Error of the last unanswered request.")
    node_count = models.PositiveIntegerField(null=True, help_text="Number of nodes.")
    ready_node_count = models.PositiveIntegerField(null=True, help_text="Number of Ready nodes.")
    seen_at = models.DateTimeField(null=True, help_text="Time of the last observation of nodes.")

    class Meta:
        verbose_name_plural = "cluster state"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=models.Q(id=1), name="cluster_state_is_one_row"),
        ]

    @override
    def __str__(self) -> str:
        return "cluster"


class ProcessHeartbeat(models.Model):
    """The last heartbeat of a process of the platform."""

    part = models.CharField(
        max_length=32, primary_key=True, help_text="For example `operations` or `beat`."
    )
    seen_at = models.DateTimeField(help_text="Database time of the last heartbeat.")
    detail = models.CharField(
        max_length=200, blank=True, help_text="Detail that the part reported."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["part"]

    @override
    def __str__(self) -> str:
        return self.part
