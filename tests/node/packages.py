"""The Debian packages of a node: downloaded and unpacked into the cache, not installed."""

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.cluster.controlplane.cache import cached, key_of
from tests.cluster.controlplane.programs import CannotStart, say

PACKAGES = (
    *("runc", "containerd", "containernetworking-plugins", "busybox-static"),
    *("nftables", "iptables", "ipset", "conntrack"),
    # Their libraries; the C library is the machine's.
    *("libbsd0", "libedit2", "libip4tc2", "libip6tc2", "libipset13", "libjansson4", "libmnl0"),
    *("libmd0", "libnetfilter-conntrack3", "libnfnetlink0", "libnftables1", "libnftnl11"),
    *("libseccomp2", "libxtables12"),
)
LINKS = {
    f"{program}{action}": "xtables-nft-multi"
    for program in ("iptables", "ip6tables")
    for action in ("", "-save", "-restore")
}
"""Links below /usr/sbin that the installation of a package would create."""
UNUSED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/lib/systemd",
)
RELEASE = Path("/etc/os-release")


def unpacked() -> Path:
    """Return the directory with `usr` of all packages, for this release of the distribution.

    Raises:
        CannotStart: a package cannot be downloaded.
    """
    content = [*PACKAGES, RELEASE.read_text(), platform.machine()]
    return cached("packages", key_of(text.encode() for text in content), _unpack)


def _unpack(root: Path) -> None:
    say(f"Downloading {len(PACKAGES)} Debian packages, once. They are not installed.")
    root.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        _download(Path(folder))
        for package in sorted(Path(folder).glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    _merge_usr(root)
    for name in UNUSED:
        shutil.rmtree(root / name, ignore_errors=True)
    for name, target in LINKS.items():
        link = root / "usr" / "sbin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _download(folder: Path) -> None:
    # As root, apt would change to a user that may not be able to write here.
    command = ["apt-get", "--quiet", "--option", "APT::Sandbox::User=root"]
    done = _captured([*command, "download", *PACKAGES], folder)
    if done.returncode != 0 and os.geteuid() == 0:
        # The lists of packages may be missing or too old.
        _captured([*command, "update"], folder)
        done = _captured([*command, "download", *PACKAGES], folder)
    if done.returncode != 0:
        reason = " ".join(done.stderr.split()) or "no reason was given"
        raise CannotStart(f"Real nodes need Debian packages that apt-get cannot get: {reason}")


def _captured(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


def _merge_usr(root: Path) -> None:
    """Move all into `usr`, which the machine's links /bin, /sbin and /lib lead to."""
    for name in ("bin", "sbin", "lib"):
        if (root / name).is_dir():
            shutil.copytree(root / name, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(root / name)
    for path in root.iterdir():
        if path.name != "usr":
            shutil.rmtree(path)
