"""The forms for the login and for the change of the user's own password."""

from typing import Any

from django.contrib.admin.forms import AdminAuthenticationForm, AdminPasswordChangeForm

from gpuplatform.adminkit.lists.model_admin import set_required_message


class LogInForm(AdminAuthenticationForm):
    """The login form; its error does not reveal whether the name or the password is wrong."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        wrong = "The name or password is incorrect, or the account has no access to the admin."
        self.error_messages = {**self.error_messages, "invalid_login": wrong}


class OwnPasswordForm(AdminPasswordChangeForm):
    """The form for the change of the user's own password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        confirmation = self.fields["new_password2"]
        confirmation.label, confirmation.help_text = "Confirm new password", ""
        set_required_message(self.fields)
