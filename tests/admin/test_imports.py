"""Only the web process loads the pages of the admin."""

import subprocess
import sys

LOADED = """
import sys
import django
django.setup()
print(*(name for name in sys.modules if "adminkit" in name))
if {loads_urls}:
    import gpuplatform.urls
    from django.contrib.admin import site
    print(len(site._registry))
"""


def _output(*, loads_urls: bool) -> str:
    code = LOADED.format(loads_urls=loads_urls)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_process_without_urls_does_not_import_the_pages() -> None:
    assert _output(loads_urls=False) == ""


def test_the_urls_register_the_pages() -> None:
    assert int(_output(loads_urls=True)) > 10
