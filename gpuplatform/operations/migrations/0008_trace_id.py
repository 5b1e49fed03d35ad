from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0007_search_indexes"),
    ]

    operations = [
        migrations.AddField(
            model_name="operation",
            name="trace_id",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="The traceID of the HTTP request that was accepted; empty without one.",
                max_length=128,
            ),
        ),
    ]
