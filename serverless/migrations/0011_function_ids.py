from django.db import migrations, models

import serverless.core.ids


class Migration(migrations.Migration):
    dependencies = [("serverless", "0010_open_of_tenant")]

    operations = [
        migrations.AlterField(
            model_name="function",
            name="id",
            field=models.BigIntegerField(
                default=serverless.core.ids.function_id,
                editable=False,
                help_text="Number in the names of workers, subjects and Secrets.",
                primary_key=True,
                serialize=False,
            ),
        ),
    ]
