"""What the platform wrote to the schedules, to recognize what operators edited."""

from typing import ClassVar

from django.db import models
from typing_extensions import override


class ScheduleRecord(models.Model):
    """The values that the platform last wrote to one schedule.

    It outlives the schedule that an operator deletes: so the schedule is not created again.
    """

    name = models.CharField(max_length=200, primary_key=True, help_text="Name of the schedule.")
    values = models.JSONField(
        default=dict,
        help_text="Fields as they were last written; a field that is missing is the operator's.",
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    @override
    def __str__(self) -> str:
        return self.name
