"""How each process starts, serves and ends: web, Celery workers, beat and the controller."""
