"""Every setting in the files of the repository exists: an unknown name would stop a process."""

import re

from gpuplatform.settings.reading import NAMES, OTHERS, TEST_PREFIX
from tests.contract.source_files import is_test, name_of, text_files

_NAME = re.compile(r"\bGPUPLATFORM_[A-Z][A-Z_]*[A-Z]\b")


def test_every_setting_that_a_page_or_manifest_names_exists() -> None:
    unknown = {}
    for path in text_files():
        if is_test(path) or path.suffix == ".py" or b"\0" in path.read_bytes():
            continue
        names = {n for n in _NAME.findall(path.read_text()) if not n.startswith(TEST_PREFIX)}
        if wrong := names - set(NAMES) - OTHERS:
            unknown[name_of(path)] = sorted(wrong)

    assert unknown == {}
