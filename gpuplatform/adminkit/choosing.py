"""How a list asks for the action on the rows that were chosen."""

from typing import Any

from django.http import HttpRequest
from typing_extensions import override

from gpuplatform.adminkit.generics import ModelAdmin


class ChoosingAdmin(ModelAdmin):
    """A list whose choice of actions begins with a word instead of dashes."""

    @override
    def get_action_choices(
        self, request: HttpRequest, default_choices: Any = (("", "Choose…"),)
    ) -> list[tuple[str, str]]:
        return super().get_action_choices(request, list(default_choices))
