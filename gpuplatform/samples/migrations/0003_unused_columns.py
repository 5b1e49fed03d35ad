"""Stop using two columns of `PlatformSample`, which nothing reads.

They stay in the table for one release, with a default: the previous release still writes them,
this one does not know them. The next release drops them.
"""

from django.db import migrations, models

COLUMNS = ("succeeded", "open_jobs")


class Migration(migrations.Migration):
    dependencies = [
        ("samples", "0002_samples"),
    ]

    operations = [
        *(
            migrations.AlterField(
                model_name="platformsample",
                name=column,
                field=models.PositiveIntegerField(db_default=0),
            )
            for column in COLUMNS
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name="platformsample", name=column)
                for column in COLUMNS
            ],
        ),
    ]
