from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0008_node_permissions"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpuspec",
            name="hold_pause_until",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
    ]
