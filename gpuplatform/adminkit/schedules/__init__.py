"""The pages of periodic tasks and their schedules."""
