"""Writes docs/configuration.md from the table of settings; `--check` only compares."""

from typing_extensions import override

from gpuplatform.management.page_command import PageCommand
from gpuplatform.management.settings_page import settings_page


class Command(PageCommand):
    """Every setting."""

    help = "Write the page about every setting."
    page_name = "configuration.md"
    source = "the table of settings"

    @override
    def page(self) -> str:
        return settings_page()
