"""Help texts of rows in standard English."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reconciliation", "0001_initial"),
    ]

    operations = [
        migrations.AlterField(
            model_name="clusterstate",
            name="closed_until",
            field=models.DateTimeField(
                blank=True,
                help_text="Time of the next probe; empty: the cluster answers.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="clusterstate",
            name="epoch",
            field=models.CharField(
                blank=True,
                help_text="Identity of this pair of database and cluster.",
                max_length=36,
            ),
        ),
        migrations.AlterField(
            model_name="clusterstate",
            name="epoch_is_established",
            field=models.BooleanField(
                default=False, help_text="Whether the cluster has stored the epoch."
            ),
        ),
        migrations.AlterField(
            model_name="clusterstate",
            name="error",
            field=models.TextField(blank=True, help_text="Error of the last unanswered request."),
        ),
        migrations.AlterField(
            model_name="clusterstate",
            name="failures",
            field=models.PositiveIntegerField(
                default=0, help_text="Consecutive requests that the cluster did not answer."
            ),
        ),
        migrations.AlterField(
            model_name="clusterstate",
            name="node_count",
            field=models.PositiveIntegerField(help_text="Number of nodes.", null=True),
        ),
        migrations.AlterField(
            model_name="clusterstate",
            name="ready_node_count",
            field=models.PositiveIntegerField(help_text="Number of Ready nodes.", null=True),
        ),
        migrations.AlterField(
            model_name="clusterstate",
            name="recovery_reason",
            field=models.TextField(
                blank=True, help_text="Why a recovery is required; empty: the epochs match."
            ),
        ),
        migrations.AlterField(
            model_name="clusterstate",
            name="seen_at",
            field=models.DateTimeField(
                help_text="Time of the last observation of nodes.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="processheartbeat",
            name="detail",
            field=models.CharField(
                blank=True, help_text="Detail that the part reported.", max_length=200
            ),
        ),
        migrations.AlterField(
            model_name="processheartbeat",
            name="seen_at",
            field=models.DateTimeField(help_text="Database time of the last heartbeat."),
        ),
    ]
