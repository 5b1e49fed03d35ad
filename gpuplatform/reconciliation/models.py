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
        null=True,
        blank=True,
        help_text="Time at which the row is due. Empty if the row has no work.",
    )
    due_seq = models.BigIntegerField(
        default=0, help_text="Number of times that the row was marked due."
    )
    lease_token = models.UUIDField(
        null=True, blank=True, help_text="Token of the worker that may record a result."
    )
    lease_expires_at = models.DateTimeField(
        null=True, blank=True, help_text="Time after which another worker may claim the row."
    )
    failures = models.PositiveIntegerField(
        default=0, help_text="Number of consecutive failures, which determines the backoff."
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
        max_length=36,
        blank=True,
        help_text="UID of the resource. Empty until the resource is created.",
    )
    generation = models.BigIntegerField(default=0, help_text="Generation of the resource.")
    observed_generation = models.BigIntegerField(
        default=0, help_text="Generation of the spec that the status describes."
    )
    resource_version = models.BigIntegerField(
        default=0, help_text="Resource version of the copy. Older copies are ignored."
    )
    reason = models.CharField(max_length=64, blank=True, help_text="Reason of the phase.")
    message = models.TextField(blank=True, help_text="Human-readable message about the phase.")
    cause = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="Cause that prevents a pod from running or becoming ready. Empty if the"
        " pod is ready.",
    )
    conditions = models.JSONField(
        default=list, blank=True, help_text="Conditions of the resource."
    )
    phase_since = models.DateTimeField(
        db_default=Now(), help_text="Time at which the phase or the reason last changed."
    )
    created_at = models.DateTimeField(
        db_default=Now(), help_text="Time at which the resource was requested."
    )
    last_sync_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the resource was last copied."
    )
    deletion_requested_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the deletion was requested or observed."
    )
    deleted_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time at which the resource was observed to be deleted. The row is then"
        " history.",
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
        help_text="Identity of the pair of database and cluster.",
    )
    epoch_is_established = models.BooleanField(
        default=False, help_text="Whether the epoch is stored in the cluster."
    )
    recovery_reason = models.TextField(
        blank=True,
        help_text="Reason for which a recovery is required. Empty if the epochs match.",
    )
    failures = models.PositiveIntegerField(
        default=0, help_text="Number of consecutive requests to which the cluster did not respond."
    )
    closed_until = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time of the next probe. Empty if the cluster responds.",
    )
    error = models.TextField(
        blank=True, help_text="Error of the last request to which the cluster did not respond."
    )
    node_count = models.PositiveIntegerField(null=True, help_text="Number of nodes.")
    ready_node_count = models.PositiveIntegerField(null=True, help_text="Number of ready nodes.")
    seen_at = models.DateTimeField(
        null=True, help_text="Time at which the nodes were last observed."
    )

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
        max_length=32,
        primary_key=True,
        help_text="Name of the process, such as `operations` or `beat`.",
    )
    seen_at = models.DateTimeField(
        help_text="Time of the last heartbeat, according to the database."
    )
    detail = models.CharField(
        max_length=200, blank=True, help_text="Details that the process reported."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["part"]

    @override
    def __str__(self) -> str:
        return self.part
