"""Writes the Events about the notices of preemptions.

The matcher gives a notice in a transaction without a call to the cluster. Each Event is written at
least once: if the process is killed before it is recorded, the next run increases its count.
"""

from typing import Final

from django.db.models import Q
from django.db.models.functions import Now

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.reconciliation import event_writer
from gpuplatform.reconciliation.events import InvolvedObject
from units.core.preemption import notice_event
from units.models import PreemptionNotice
from units.phases import RequestPhase

EVENT_SECONDS: Final = 5.0
"""Maximum duration in seconds of the wait until the Events of a run are written."""


def announce_preemptions(cluster: Cluster, request: int | None = None) -> None:
    """Write an Event for each unit whose notice has none, optionally of one request."""
    which = Q() if request is None else Q(request=request)
    rows = PreemptionNotice.objects.filter(
        which, announced_at__isnull=True, request__phase=RequestPhase.OPEN
    )
    notices = list(rows.select_related("unit").order_by("id"))
    for notice in notices:
        unit = notice.unit
        subject = InvolvedObject(GPU_UNIT, unit.namespace, unit.name, unit.uid)
        event_writer.submit(cluster, subject, [notice_event()])
    if notices:
        event_writer.finish(EVENT_SECONDS)
        written = PreemptionNotice.objects.filter(pk__in=[notice.pk for notice in notices])
        written.update(announced_at=Now())
