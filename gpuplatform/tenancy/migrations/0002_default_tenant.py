"""The default tenant."""

from django.db import migrations


def add_default_tenant(apps, schema_editor):
    apps.get_model("tenancy", "Tenant").objects.get_or_create(
        name="default", defaults={"namespace": "runtime-instance"}
    )


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0001_initial")]

    operations = [migrations.RunPython(add_default_tenant, migrations.RunPython.noop)]
