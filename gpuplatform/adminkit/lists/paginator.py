"""Pages of large tables without counting them."""

from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from typing_extensions import override

from gpuplatform.adminkit.display.generics import RowPaginator

CAP = 5_000


class CappedPaginator(RowPaginator):
    """Counts to `CAP` and stops: who looks further narrows the list by a filter."""

    object_list: QuerySet[Any]

    @cached_property
    def _counted(self) -> int:
        return self.object_list.order_by()[: CAP + 1].count()

    @cached_property
    @override
    def count(self) -> int:
        return min(self._counted, CAP)

    @property
    def is_capped(self) -> bool:
        """Whether there are more rows than were counted."""
        return self._counted > CAP
