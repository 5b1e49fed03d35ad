"""How lists ask for an action on the rows that were chosen, and how forms are saved."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from typing_extensions import override

from gpuplatform.adminkit.generics import ModelAdmin

ONE_BUTTON: Final = {"show_save_and_add_another": False, "show_save_and_continue": False}


class ChoosingAdmin(ModelAdmin):
    """A list whose choice of actions begins with a word, a form that is saved in one way."""

    is_live_with_actions = False
    """Whether the rows of a list with actions are kept fresh while it is open."""

    @override
    def get_action_choices(
        self, request: HttpRequest, default_choices: Any = (("", "Choose…"),)
    ) -> list[tuple[str, str]]:
        return super().get_action_choices(request, list(default_choices))

    @override
    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        return super().render_change_form(request, {**context, **ONE_BUTTON}, *args, **kwargs)
