"""The command line of the real nodes.

python -m tests.node build                builds what the nodes consist of
python -m tests.node test [PYTEST_ARGS]   runs the tests of this folder on real nodes
python -m tests.node core SECONDS [PYTEST_ARGS]
                                          runs the core set of them, within this time
python -m tests.node up [NODES]           runs a cluster until Ctrl-C, and prints its kubeconfig
python -m tests.node bench [ARGS]         measures the hand-over of GPU units

`test`, `core`, `up` and `bench` run in their own network and mount namespaces without access to
another network, which only a build needs. The kubeconfig of `up` is for the network of the
machine.
"""

import os
import sys
from typing import NoReturn

from tests.cluster.controlplane.programs import CannotStart, say
from tests.node import builds, relay, requirements
from tests.node.network import NAMESPACE_VARIABLE

ISOLATED = ["unshare", "--mount", "--net", "--propagation", "private", "--"]
SCRIPT = f"""\
set -e
ip link set lo up
export {NAMESPACE_VARIABLE}="$(readlink /proc/self/ns/net)"
exec "$@"
"""
USAGE = (
    "usage: python -m tests.node build | test [PYTEST_ARGS]"
    " | core SECONDS [PYTEST_ARGS] | up [NODES] | bench [ARGS]"
)


def main(arguments: list[str]) -> int:
    """Check the machine, build, and become the command in its namespaces."""
    command, further = arguments[:1], arguments[1:]
    if command not in (["build"], ["test"], ["core"], ["up"], ["bench"]):
        say(USAGE)
        return 2
    sentence = requirements.missing_sentence(is_build=command == ["build"])
    if sentence:
        say(sentence)
        return 1
    has_policies = command != ["core"] or builds.has_time_for_policies(int(further.pop(0)))
    try:
        builds.all_built(has_policies=has_policies)
    except CannotStart as error:
        say(str(error))
        return 1
    if command == ["test"]:
        become(["pytest", "tests/node", *further])
    if command == ["core"]:
        without = [] if has_policies else ["--without-policies"]
        become(["pytest", "tests/node", "-m", "core", *without, *further])
    if command == ["bench"]:
        become(["tests.benchmarks.node", *further])
    if command == ["up"]:
        become(["tests.node.up", str(relay.inheritable_listener()), *further])
    return 0


def become(module: list[str]) -> NoReturn:
    """Replace this process by a Python module in new namespaces."""
    command = [*ISOLATED, "sh", "-c", SCRIPT, "sh", sys.executable, "-m", *module]
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
