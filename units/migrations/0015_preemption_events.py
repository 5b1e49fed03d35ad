from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("units", "0014_preemption")]

    operations = [
        migrations.AddField(
            model_name="preemptionnotice",
            name="announced_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
