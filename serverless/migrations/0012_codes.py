"""Rename the stored codes `NodeRefused` and `caller_left`."""

from typing import Any

from django.db import migrations


def rename_codes(apps: Any, _: Any) -> None:
    """Replace the codes of functions and invocations."""
    functions = apps.get_model("serverless", "Function").objects.filter(cause="NodeRefused")
    functions.update(cause="RejectedByNode")
    invocations = apps.get_model("serverless", "Invocation").objects
    invocations.filter(failure_class="caller_left").update(failure_class="caller_disconnected")


class Migration(migrations.Migration):
    dependencies = [("serverless", "0011_function_ids")]

    operations = [migrations.RunPython(rename_codes, migrations.RunPython.noop)]
