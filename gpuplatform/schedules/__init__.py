"""The beat schedules of all apps. `prepare_database` writes them to the database."""
