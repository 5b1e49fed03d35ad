"""The beat schedules of all apps: one table in code, which `prepare_database` brings in."""
