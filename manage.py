#!/usr/bin/env python
"""Django's command line for this project; every command takes `--config FILE`."""

import os
import sys


def main() -> None:
    """Run a management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
    try:
        from django.core.management import execute_from_command_line  # noqa: PLC0415 - see below

        from gpuplatform.configfile import (  # noqa: PLC0415 - as above
            take_config_option,
            use_defaults_for_help,
        )
    except ImportError as error:
        raise SystemExit(
            f"{error}. Run 'make setup', then use .venv/bin/python manage.py."
        ) from error
    # Before the command is looked for: that reads the settings.
    arguments = take_config_option(sys.argv)
    use_defaults_for_help(arguments)
    execute_from_command_line(arguments)


if __name__ == "__main__":
    main()
