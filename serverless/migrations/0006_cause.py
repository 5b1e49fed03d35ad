from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("serverless", "0005_result_attempt")]

    operations = [
        migrations.AddField(
            model_name="function",
            name="cause",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                max_length=64,
            ),
        )
    ]
