from typing import Any

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.functions.datetime
from django.db import migrations, models

from gpuplatform.tenancy.groups import StaffGroup, grant

# Only `audit_prune` deletes rows, and only old ones. A restored copy is loaded with `COPY`, which
# these triggers do not concern.
PROTECT = """
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log cannot be changed: % of %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE FUNCTION audit_is_old() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('gpuplatform.audit_prune', true) = 'on'
        AND COALESCE(to_jsonb(OLD) ->> 'newest_at', to_jsonb(OLD) ->> 'at')::timestamptz
            < now() - interval '30 days' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit log cannot be changed: % of %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER audit_entry_unchanged BEFORE UPDATE OR TRUNCATE ON audit_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();
CREATE TRIGGER audit_seal_unchanged BEFORE UPDATE OR TRUNCATE ON audit_auditseal
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();
CREATE TRIGGER audit_entry_kept BEFORE DELETE ON audit_auditentry
    FOR EACH ROW EXECUTE FUNCTION audit_is_old();
CREATE TRIGGER audit_seal_kept BEFORE DELETE ON audit_auditseal
    FOR EACH ROW EXECUTE FUNCTION audit_is_old();
CREATE FUNCTION audit_prune(last_number bigint) RETURNS bigint LANGUAGE plpgsql
    SET gpuplatform.audit_prune = 'on' AS $$
DECLARE deleted bigint;
BEGIN
    DELETE FROM audit_auditentry WHERE id IN (
        SELECT unnest(entry_ids) FROM audit_auditseal WHERE number <= last_number);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    DELETE FROM audit_auditseal WHERE number <= last_number;
    RETURN deleted;
END $$;
"""
UNPROTECT = """
DROP TRIGGER audit_entry_unchanged ON audit_auditentry;
DROP TRIGGER audit_entry_kept ON audit_auditentry;
DROP TRIGGER audit_seal_unchanged ON audit_auditseal;
DROP TRIGGER audit_seal_kept ON audit_auditseal;
DROP FUNCTION audit_prune(bigint);
DROP FUNCTION audit_is_old();
DROP FUNCTION audit_is_append_only();
"""


def add_permissions(apps: Any, _: Any) -> None:
    """Grant the permission of the page of the audit log."""
    grant(apps, StaffGroup.OPERATOR, ["audit.view_auditentry"])


class Migration(migrations.Migration):
    initial = True

    dependencies = [("tenancy", "0008_members")]

    operations = [
        migrations.CreateModel(
            name="AuditSeal",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                (
                    "sealed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("newest_at", models.DateTimeField()),
                (
                    "entry_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), size=None
                    ),
                ),
                (
                    "entry_digests",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BinaryField(), size=None
                    ),
                ),
                ("previous", models.BinaryField(unique=True)),
                ("digest", models.BinaryField()),
                ("last_xact", models.BigIntegerField()),
                ("last_id", models.BigIntegerField()),
                ("highest_id", models.BigIntegerField()),
                ("floor_id", models.BigIntegerField()),
            ],
            options={
                "ordering": ["number"],
            },
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("xact", models.BigIntegerField()),
                ("actor_kind", models.CharField(max_length=16)),
                ("actor_id", models.CharField(blank=True, max_length=64)),
                ("actor", models.CharField(blank=True, max_length=300)),
                ("tenant", models.CharField(blank=True, max_length=63)),
                ("address", models.CharField(blank=True, max_length=64)),
                ("trace_id", models.CharField(blank=True, max_length=128)),
                ("verb", models.CharField(max_length=32)),
                ("object_kind", models.CharField(blank=True, max_length=64)),
                ("object_namespace", models.CharField(blank=True, max_length=63)),
                ("object_name", models.CharField(blank=True, max_length=253)),
                ("object_uid", models.CharField(blank=True, max_length=64)),
                ("operation_id", models.CharField(blank=True, max_length=128)),
                ("outcome", models.CharField(max_length=16)),
                ("code", models.CharField(blank=True, max_length=64)),
                ("changes", models.JSONField(default=list)),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit",
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["xact", "id"], name="audit_in_order"),
                    models.Index(fields=["tenant", "-id"], name="audit_of_tenant"),
                    models.Index(fields=["object_name", "-id"], name="audit_of_object"),
                    models.Index(fields=["actor", "-id"], name="audit_by_actor"),
                    models.Index(
                        condition=models.Q(("outcome", "rejected")),
                        fields=["-id"],
                        name="audit_rejected",
                    ),
                    models.Index(
                        condition=models.Q(("outcome", "observed")),
                        fields=["object_uid"],
                        name="audit_observed",
                    ),
                    django.contrib.postgres.indexes.BrinIndex(
                        autosummarize=True, fields=["at"], name="audit_at"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("outcome__in", ["accepted", "rejected", "read", "observed"])
                        ),
                        name="audit_outcome_is_known",
                    )
                ],
            },
        ),
        migrations.RunSQL(PROTECT, UNPROTECT),
        migrations.RunPython(add_permissions, migrations.RunPython.noop),
    ]
