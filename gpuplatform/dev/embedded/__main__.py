"""The runner, `python -m gpuplatform.dev.embedded`, which `make run` and `run_platform` start.

It prepares the servers, then starts, supervises and stops all processes.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from gpuplatform.configfile import take_config_option, with_config_file
from gpuplatform.dev.embedded.children import ChildRecord, die_with_parent, stop_leftovers
from gpuplatform.dev.embedded.console import Console
from gpuplatform.dev.embedded.data_directory import PROJECT_ROOT, DataDirectory
from gpuplatform.dev.embedded.errors import StartError
from gpuplatform.dev.embedded.layout import Layout
from gpuplatform.dev.embedded.options import DEFAULT_PORT, Options
from gpuplatform.dev.embedded.ports import LOOPBACK, choose_port
from gpuplatform.dev.embedded.supervisor import Supervisor


def main() -> int:
    """Run the platform until a stop signal arrives or a part exits, and return the exit code."""
    sys.argv = take_config_option(sys.argv)
    os.chdir(PROJECT_ROOT)
    os.umask(0o077)  # Only the owner reads the files of the data directory.
    if os.environ.get("GPUPLATFORM_RUN_BY") == "make":
        # Otherwise this process would survive a `make` that is killed with SIGKILL.
        die_with_parent(signal.SIGTERM)
    try:
        options = Options.from_environment(with_config_file(os.environ))
        if not options.data.path.exists():
            # A start that is rejected because of its port leaves no directory behind.
            choose_port(options.requested_port, DEFAULT_PORT)
        options.data.create()
        with options.data.owned():
            return _run(options)
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 0


def _run(options: Options) -> int:
    data = options.data
    record = ChildRecord(data.children)
    leftovers = stop_leftovers(record)
    record.begin()
    shutil.rmtree(data.metrics, ignore_errors=True)  # Killed processes do not delete their files.
    chosen = choose_port(options.requested_port, DEFAULT_PORT)
    is_first_run = not data.admin_password.exists()
    layout = Layout.prepare(options, chosen.port)
    is_recovery = sys.argv[1:] == ["recover"]
    parts = layout.recovery_parts() if is_recovery else layout.parts()
    console = Console(tuple(part.name for part in parts))
    if leftovers:
        console.note(f"Stopped processes that an earlier run left behind: {', '.join(leftovers)}.")
    if chosen.notice:
        console.note(chosen.notice)
    data.write_addresses(layout.addresses())
    data.write_metrics_targets({} if is_recovery else layout.metrics_ports)

    def when_ready() -> bool:
        if not is_recovery:
            console.plain(table(layout, shows_password=is_first_run))
        return not is_recovery

    def stop() -> None:
        data.mark_stopping()
        data.remove_addresses()

    return Supervisor(parts, console, record).run(when_ready, stop)


def table(layout: Layout, *, shows_password: bool) -> str:
    """Return the table of addresses as text; it contains the admin password on the first start."""
    data, url = layout.options.data, f"http://{LOOPBACK}:{layout.port}"
    rows = {
        "Admin": f"{url}/admin/",
        "Login": f"admin / {_password(data, shows_password=shows_password)}",
        "Swagger": f"{url}/swagger/index.html",
        "API": f"{url}/api/v1/health",
        "Kubeconfig": layout.addresses()["KUBECONFIG"] or "none (KUBE_MODE=off)",
        "Metrics": _metrics(layout),
        "Data": str(data.path),
        "Stop": "Ctrl-C",
    }
    lines = [f"  {name:<11} {value}" for name, value in rows.items()]
    notice = "Development mode: every user of this machine can call the API without a token."
    return "\n".join(["", "The platform is ready.", "", *lines, "", notice, ""])


def _metrics(layout: Layout) -> str:
    if "web" not in layout.metrics_ports:
        return "none (GPUPLATFORM_METRICS_PORT=0)"
    first = f"http://{LOOPBACK}:{layout.metrics_ports['web']}/metrics (web)"
    return f"{first}; all processes: {layout.options.data.metrics_targets}"


def _password(data: DataDirectory, *, shows_password: bool) -> str:
    path: Path = data.admin_password
    if shows_password and path.exists():
        return path.read_text().strip()
    return f"the password in {path}"


if __name__ == "__main__":
    sys.exit(main())
