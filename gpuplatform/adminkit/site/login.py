"""Logging in to the admin, and the password of the one who is logged in, in our words."""

from typing import Any

from django.contrib.admin.forms import AdminAuthenticationForm, AdminPasswordChangeForm

from gpuplatform.adminkit.lists.choosing import set_required_message


class LogInForm(AdminAuthenticationForm):
    """Asks for name and password; which of the two is wrong is for nobody to know."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""
        wrong = "Name or password is wrong, or the account may not see the admin."
        self.error_messages = {**self.error_messages, "invalid_login": wrong}


class OwnPasswordForm(AdminPasswordChangeForm):
    """Asks for the old password and for the new one, twice."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        again = self.fields["new_password2"]
        again.label, again.help_text = "New password again", ""
        set_required_message(self.fields)
