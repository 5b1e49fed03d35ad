"""When a result was stored, beside when its function had answered."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("serverless", "0003_rights")]

    operations = [
        migrations.AddField(
            model_name="invocation",
            name="stored_at",
            field=models.DateTimeField(blank=True, null=True),
        )
    ]
