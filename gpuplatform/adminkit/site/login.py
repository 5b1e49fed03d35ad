"""The forms of the log-in and of the user's password."""

from typing import Any

from django.contrib.admin.forms import AdminAuthenticationForm, AdminPasswordChangeForm

from gpuplatform.adminkit.lists.model_admin import set_required_message


class LogInForm(AdminAuthenticationForm):
    """Asks for name and password; the error does not reveal which of the two is wrong."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        wrong = "Name or password is wrong, or the account has no access to the admin."
        self.error_messages = {**self.error_messages, "invalid_login": wrong}


class OwnPasswordForm(AdminPasswordChangeForm):
    """Asks for the old password, and twice for the new one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        confirmation = self.fields["new_password2"]
        confirmation.label, confirmation.help_text = "Confirm new password", ""
        set_required_message(self.fields)
