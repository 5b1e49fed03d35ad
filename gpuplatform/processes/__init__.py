"""The processes of the platform: web, Celery workers, beat and the controller."""
