"""Database models of the usage ledger. Only the services of this app write them."""

import uuid
from typing import ClassVar, Final

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.tenancy.models import Tenant

SEAL_HOURS: Final = 2
"""Number of hours after the end of an hour until its records are sealed."""


class UsageKind(models.TextChoices):
    """The kind of resource that is used."""

    GPU = "gpu", "GPU unit"
    STORAGE = "storage", "Storage"
    INVOCATION = "invocation", "Invocations"


class EndBasis(models.TextChoices):
    """How the end of an interval is known."""

    OBSERVED = "observed", "Observed: the end of the pod is known"
    ESTIMATED = "estimated", "Estimated: the time at which the pod was last seen"


class UsageEpoch(models.Model):
    """A period between two recoveries of the database. Ids of records differ between epochs."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    begun_at = models.DateTimeField(db_default=Now(), help_text="Time of the recovery.")

    class Meta:
        ordering: ClassVar[list[str]] = ["begun_at"]

    @override
    def __str__(self) -> str:
        return str(self.id)


class UsageInterval(models.Model):
    """A time in which a unit held the GPUs of one stock unit that it consumed.

    The UID of the stock unit and the part identify an interval, so that a retry or a late worker
    opens no second one. Nothing after `seen_at` is charged, even while the interval is open.
    """

    kind = models.CharField(
        max_length=16,
        choices=UsageKind.choices,
        default=UsageKind.GPU,
        help_text="Kind of the used resource.",
    )
    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, db_index=False, help_text="Tenant of the unit."
    )
    unit_uid = models.CharField(max_length=36, help_text="UID of the unit.")
    unit_name = models.CharField(max_length=253, help_text="Name of the unit.")
    source_uid = models.CharField(
        max_length=36, help_text="UID of the stock unit that the unit consumed."
    )
    part = models.PositiveIntegerField(
        default=1,
        help_text="Number of the part, from 1. A part ends when the unit waits for GPUs again.",
    )
    spec_name = models.CharField(max_length=63, blank=True, help_text="Name of the GPU spec.")
    product = models.CharField(
        max_length=63, blank=True, help_text="GPU product of the GPU spec. Empty for any."
    )
    resource_name = models.CharField(max_length=253, help_text="Resource that `gpus` counts.")
    gpus = models.PositiveIntegerField(help_text="Number of GPUs.")
    cpu_millis = models.PositiveBigIntegerField(default=0, help_text="CPU in thousandths.")
    memory_mib = models.PositiveBigIntegerField(default=0, help_text="Memory in MiB.")
    started_at = models.DateTimeField(help_text="Start of the use.")
    seen_at = models.DateTimeField(help_text="Time until which the use is proven.")
    ended_at = models.DateTimeField(
        null=True, blank=True, help_text="End of the use. Empty while the interval is open."
    )
    end_basis = models.CharField(
        max_length=9,
        choices=EndBasis.choices,
        blank=True,
        default="",
        help_text="How the end is known.",
    )
    uncertain_seconds = models.FloatField(
        default=0.0,
        help_text="Time in seconds from the end to the first proof that no pod exists.",
    )
    pod_uid = models.CharField(
        max_length=36, blank=True, default="", help_text="UID of the last seen pod."
    )
    bound_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the last seen pod was bound to its node."
    )
    finished_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the last seen pod released its GPUs."
    )
    ready_since = models.DateTimeField(
        null=True, blank=True, help_text="Time since which the last seen pod was ready."
    )
    ready_seconds = models.FloatField(
        default=0.0, help_text="Time in seconds in which a pod was ready."
    )
    changed_from = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time from which older records of the interval have to be computed again.",
    )
    epoch = models.ForeignKey(
        UsageEpoch, on_delete=models.PROTECT, help_text="Epoch in which the interval was opened."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["source_uid", "part"], name="usage_interval_is_unique"
            ),
            ExclusionConstraint(
                name="usage_intervals_do_not_overlap",
                expressions=[
                    (F("unit_uid"), RangeOperators.EQUAL),
                    (
                        Func(
                            "started_at",
                            "ended_at",
                            function="tstzrange",
                            output_field=DateTimeRangeField(),
                        ),
                        RangeOperators.OVERLAPS,
                    ),
                ],
            ),
            models.CheckConstraint(
                condition=Q(kind__in=UsageKind.values), name="usage_interval_kind_is_known"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, end_basis="")
                | Q(ended_at__gte=F("started_at"), end_basis__in=EndBasis.values),
                name="usage_interval_end_is_known",
            ),
            models.CheckConstraint(
                condition=Q(seen_at__gte=F("started_at")), name="usage_interval_is_seen"
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["id"], name="usage_interval_open", condition=Q(ended_at__isnull=True)
            ),
            models.Index(fields=["unit_uid", "started_at"], name="usage_interval_of_unit"),
            models.Index(fields=["ended_at"], name="usage_interval_ended"),
            models.Index(fields=["tenant", "unit_name"], name="usage_interval_of_tenant"),
            models.Index(
                fields=["unit_uid"],
                name="usage_interval_changed",
                condition=Q(changed_from__isnull=False),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.unit_name} {self.source_uid}/{self.part}"


class UsageRecord(models.Model):
    """The use of one subject in one hour, or a correction of it. Sealed records never change.

    The sum of a record and its corrections is the use. A trigger of the database rejects changes
    and deletions of sealed records.
    """

    id = models.UUIDField(primary_key=True, help_text="Stable id of the record.")
    hour = models.DateTimeField(help_text="Start of the hour in UTC.")
    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, db_index=False, help_text="Tenant of the subject."
    )
    kind = models.CharField(
        max_length=16, choices=UsageKind.choices, help_text="Kind of the used resource."
    )
    subject = models.CharField(
        max_length=63, help_text="UID of the unit, or name of the function."
    )
    subject_name = models.CharField(max_length=253, help_text="Name of the subject.")
    spec_name = models.CharField(max_length=63, blank=True, help_text="Name of the GPU spec.")
    product = models.CharField(max_length=63, blank=True, help_text="GPU product.")
    resource_name = models.CharField(max_length=253, blank=True, help_text="Resource.")
    gpus = models.PositiveIntegerField(default=0, help_text="Largest number of GPUs in the hour.")
    milliseconds = models.BigIntegerField(help_text="Time in milliseconds.")
    gpu_milliseconds = models.BigIntegerField(default=0, help_text="Time multiplied by GPUs.")
    cpu_milliseconds = models.BigIntegerField(
        default=0, help_text="Time multiplied by the number of CPUs."
    )
    memory_mib_seconds = models.BigIntegerField(
        default=0, help_text="Time in seconds multiplied by the memory in MiB."
    )
    count = models.BigIntegerField(default=0, help_text="Number of invocations that ended.")
    is_estimated = models.BooleanField(
        default=False, help_text="Whether a part of the use is estimated."
    )
    corrects = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="corrections",
        db_index=False,
        help_text="Record to which the difference in this record has to be added.",
    )
    sealed_at = models.DateTimeField(
        null=True, blank=True, help_text="Time from which the record never changes."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["hour", "id"]
        verbose_name = "usage record"
        verbose_name_plural = "usage"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["hour", "kind", "subject", "spec_name", "tenant"],
                condition=Q(corrects__isnull=True),
                name="usage_record_is_unique",
            ),
            models.CheckConstraint(
                condition=Q(corrects__isnull=True) | Q(sealed_at__isnull=False),
                name="usage_correction_is_sealed",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["tenant", "hour"],
                name="usage_record_of_tenant",
                include=[
                    "kind",
                    "spec_name",
                    "milliseconds",
                    "gpu_milliseconds",
                    "count",
                    "is_estimated",
                ],
            ),
            models.Index(fields=["hour", "id"], name="usage_record_in_order"),
            models.Index(
                fields=["hour"], name="usage_record_unsealed", condition=Q(sealed_at__isnull=True)
            ),
            models.Index(
                fields=["-hour"],
                name="usage_record_of_invocations",
                condition=Q(kind=UsageKind.INVOCATION, sealed_at__isnull=False),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.subject_name} {self.hour:%Y-%m-%dT%H}"


class TenantDecay(models.Model):
    """The decayed GPU-seconds of a tenant at one time, for the order of the capacity queue."""

    tenant = models.OneToOneField(
        Tenant, on_delete=models.CASCADE, primary_key=True, help_text="Tenant."
    )
    gpu_seconds = models.FloatField(help_text="Decayed GPU-seconds at `at`.")
    at = models.DateTimeField(help_text="Time until which the use is counted.")

    class Meta:
        ordering: ClassVar[list[str]] = ["tenant"]

    @override
    def __str__(self) -> str:
        return f"{self.tenant}: {self.gpu_seconds:.0f}"
