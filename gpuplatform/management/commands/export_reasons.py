"""Writes docs/reasons.md from the phases, reasons and errors; `--check` only compares."""

from typing_extensions import override

from gpuplatform.management.page_command import PageCommand
from gpuplatform.management.reasons_page import reasons_page


class Command(PageCommand):
    """Every phase, reason and code."""

    help = "Write the page about every phase, reason and code."
    page_name = "reasons.md"
    source = "the list of reasons and codes"

    @override
    def page(self) -> str:
        return reasons_page()
