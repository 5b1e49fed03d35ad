#!/usr/bin/env python
"""Django's command line for this project."""

import os
import sys


def main() -> None:
    """Run a management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
    try:
        from django.core.management import execute_from_command_line  # noqa: PLC0415 - see below
    except ImportError as error:
        raise SystemExit(
            f"{error}. Run 'make setup', then use .venv/bin/python manage.py."
        ) from error
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
