"""Database models of the audit log. Only the services of this app write them.

Triggers of the database reject each change of a row, and its deletion before the shortest
retention. Entries refer to no other table, so that they outlive their objects.
"""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.tenancy.actor import ActorKind


class Outcome(models.TextChoices):
    """What became of a request."""

    ACCEPTED = "accepted", "Accepted"
    REJECTED = "rejected", "Rejected"
    READ = "read", "Read"
    OBSERVED = "observed", "Observed"
    """A change in the cluster by another client than the platform."""


class AuditEntry(models.Model):
    """An accepted write, a rejected request, a login, or a read of something secret."""

    at = models.DateTimeField(db_default=Now(), help_text="Time of the statement.")
    xact = models.BigIntegerField(
        help_text="Transaction that inserted the entry. Entries are sealed in this order."
    )
    actor_kind = models.CharField(
        max_length=16, choices=ActorKind.choices, help_text="Kind of the actor."
    )
    actor_id = models.CharField(
        max_length=64, blank=True, help_text="Id of the token or user. Empty for other actors."
    )
    actor = models.CharField(max_length=300, blank=True, help_text="Name of the actor.")
    tenant = models.CharField(max_length=63, blank=True, help_text="Tenant of the object.")
    address = models.CharField(
        max_length=64, blank=True, help_text="Address of the client. Empty outside of requests."
    )
    trace_id = models.CharField(
        max_length=128, blank=True, help_text="The traceID of the request."
    )
    verb = models.CharField(max_length=32, help_text="The requested action, such as create.")
    object_kind = models.CharField(max_length=64, blank=True, help_text="Kind of the object.")
    object_namespace = models.CharField(
        max_length=63, blank=True, help_text="Namespace of the object."
    )
    object_name = models.CharField(max_length=253, blank=True, help_text="Name of the object.")
    object_uid = models.CharField(
        max_length=64, blank=True, help_text="UID of the object, if it had one."
    )
    operation_id = models.CharField(
        max_length=128, blank=True, help_text="The operationID, if the request is an operation."
    )
    outcome = models.CharField(
        max_length=16, choices=Outcome.choices, help_text="What became of the request."
    )
    code = models.CharField(
        max_length=64, blank=True, help_text="Error code of a rejected request."
    )
    changes = models.JSONField(
        default=list, help_text="Changed fields with their earlier and new values."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "audit entry"
        verbose_name_plural = "audit"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=Q(outcome__in=Outcome.values), name="audit_outcome_is_known"
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["xact", "id"], name="audit_in_order"),
            models.Index(fields=["tenant", "-id"], name="audit_of_tenant"),
            models.Index(fields=["object_name", "-id"], name="audit_of_object"),
            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
            models.Index(
                fields=["-id"], name="audit_rejected", condition=Q(outcome=Outcome.REJECTED)
            ),
            models.Index(
                fields=["object_uid"],
                name="audit_observed",
                condition=Q(outcome=Outcome.OBSERVED),
            ),
            BrinIndex(fields=["at"], name="audit_at", autosummarize=True),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.verb} {self.object_kind} {self.object_name}".strip()


class AuditSeal(models.Model):
    """A link of the chain: the digests of up to `BATCH` entries, and one over all earlier seals.

    The cursor of the newest seal is the place from which entries are not sealed.
    """

    number = models.BigIntegerField(primary_key=True, help_text="Number of the seal, from 1.")
    sealed_at = models.DateTimeField(db_default=Now(), help_text="Time of the seal.")
    newest_at = models.DateTimeField(help_text="Time of the newest entry.")
    entry_ids = ArrayField(models.BigIntegerField(), help_text="Entries in the sealed order.")
    entry_digests = ArrayField(models.BinaryField(), help_text="The digest of each entry.")
    previous = models.BinaryField(unique=True, help_text="Digest of the previous seal.")
    digest = models.BinaryField(help_text="Digest over the previous one and the entries.")
    last_xact = models.BigIntegerField(help_text="Transaction of the last entry.")
    last_id = models.BigIntegerField(help_text="Id of the last entry.")
    highest_id = models.BigIntegerField(help_text="Highest id of all sealed entries.")
    floor_id = models.BigIntegerField(
        help_text="Id up to which entries were sealed before transaction ids began again."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["number"]

    @override
    def __str__(self) -> str:
        return f"Seal {self.number}"
