"""The pages of the periodic tasks and their runs."""
