from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0005_resources"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpuspec",
            name="warm_images",
            field=models.JSONField(blank=True, db_default=[], default=list),
        ),
        migrations.AddField(
            model_name="gpuspec",
            name="image_pull_secrets",
            field=models.JSONField(blank=True, db_default=[], default=list),
        ),
    ]
