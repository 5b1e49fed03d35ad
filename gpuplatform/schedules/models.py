"""Records of the schedules that the platform wrote, to detect changes by operators."""

from typing import ClassVar

from django.db import models
from typing_extensions import override


class ScheduleRecord(models.Model):
    """The values that the platform last wrote to a schedule.

    If an operator deletes the schedule, the record remains, so that the schedule is not created
    again.
    """

    name = models.CharField(max_length=200, primary_key=True, help_text="Name of the schedule.")
    values = models.JSONField(
        default=dict,
        help_text="Values that the platform last wrote, by field.",
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    @override
    def __str__(self) -> str:
        return self.name
