"""`manage.py export_reasons`: write `docs/reasons.md`."""

from collections.abc import Mapping
from pathlib import Path

from typing_extensions import override

from gpuplatform.management.generated import GeneratedFilesCommand
from gpuplatform.management.reasons_page import reasons_page
from gpuplatform.settings.environment import PROJECT_ROOT


class Command(GeneratedFilesCommand):
    """Writes the page of all phases, reasons, causes and codes."""

    help = "Writes the page of all phases, reasons, causes and codes."
    source = "the declared phases, reasons and errors"
    directory = PROJECT_ROOT / "docs"
    make_target = "make docs"

    @override
    def files(self, directory: Path) -> Mapping[Path, str]:
        return {directory / "reasons.md": reasons_page()}
