"""The forms for the login and for the change of the user's own password."""

from typing import Any, Final

from django.conf import settings
from django.contrib.admin.forms import AdminAuthenticationForm, AdminPasswordChangeForm
from django.core.exceptions import ValidationError
from django.db import transaction
from typing_extensions import override

from gpuplatform.adminkit.lists.journal import form_observed
from gpuplatform.adminkit.lists.model_admin import set_required_message
from gpuplatform.adminkit.site.login_log import LogIn, record_login
from gpuplatform.adminkit.site.throttle import login_failed, login_succeeded, pause_seconds
from gpuplatform.formats.client_address import client_of

_TOO_MANY: Final = "Too many attempts to log in have failed. Try again in {}."


class LogInForm(AdminAuthenticationForm):
    """The login form; its error does not reveal whether the name or the password is wrong.

    After too many failed attempts, the password is not checked and `retry_after` is set.
    """

    retry_after = 0
    """Number of seconds until the next attempt is allowed, if this one was rejected."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        wrong = "The name or password is incorrect, or the account has no access to the admin."
        self.error_messages = {**self.error_messages, "invalid_login": wrong}

    @override
    def clean(self) -> dict[str, Any]:
        name, address = self.cleaned_data.get("username") or "", self._address()
        if not name or not self.cleaned_data.get("password"):
            return super().clean()
        self.retry_after = pause_seconds(name, address)
        if self.retry_after:
            record_login(LogIn.REJECTED, name, address)
            raise ValidationError(_TOO_MANY.format(_duration(self.retry_after)), "throttled")
        try:
            cleaned: dict[str, Any] = super().clean()
        except ValidationError:
            login_failed(name, address)
            record_login(LogIn.FAILED, name, address)
            raise
        login_succeeded(name, address)
        record_login(LogIn.SUCCEEDED, name, address)
        return cleaned

    def _address(self) -> str:
        meta = self.request.META if self.request is not None else {}
        return client_of(meta, settings.TRUSTED_PROXIES)


class OwnPasswordForm(AdminPasswordChangeForm):
    """The form for the change of the user's own password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        confirmation = self.fields["new_password2"]
        confirmation.label, confirmation.help_text = "Confirm new password", ""
        set_required_message(self.fields)

    @override
    def save(self, commit: bool = True) -> Any:
        with transaction.atomic():
            form_observed(self.user, "update", "Password changed.")
            return super().save(commit)


def _duration(seconds: int) -> str:
    return f"{seconds} s" if seconds <= 60 else f"{-(-seconds // 60)} minutes"
