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
                max_length=128,
            ),
        ),
    ]
