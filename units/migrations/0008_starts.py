from django.db import migrations, models
from django.db.models import Value


class Migration(migrations.Migration):
    dependencies = [
        ("units", "0007_resources"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpuunit",
            name="start_steps",
            field=models.JSONField(db_default=Value([], models.JSONField()), default=list),
        ),
        migrations.AddField(
            model_name="gpuunit",
            name="avoided_node",
            field=models.CharField(blank=True, db_default="", max_length=253),
        ),
    ]
