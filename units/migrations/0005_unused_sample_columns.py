"""Stop using five columns of `CapacitySample`, which nothing reads.

They stay in the table for one release, with a default: the previous release still writes them,
this one does not know them. The next release drops them.
"""

from django.db import migrations, models

COLUMNS = ("ready", "starting", "failed", "claimed", "active")


class Migration(migrations.Migration):
    dependencies = [
        ("units", "0004_short_node"),
    ]

    operations = [
        *(
            migrations.AlterField(
                model_name="capacitysample",
                name=column,
                field=models.PositiveIntegerField(db_default=0),
            )
            for column in COLUMNS
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name="capacitysample", name=column)
                for column in COLUMNS
            ],
        ),
    ]
