r"""Simulated nodes with GPUs and their kubelets, as a client of any Kubernetes API server.

    python -m gpuplatform.dev.simulator.kubelet --kubeconfig FILE --nodes 3 --gpus 8

Most containers do not run a program. The kubelet only reports their state, which depends on the
spec of the pod:

| spec                                          | reported state                                 |
|-----------------------------------------------|------------------------------------------------|
| none of the following                         | keeps running and is ready                     |
| image on a host that ends in `.invalid`       | ErrImagePull, ImagePullBackOff, and so on      |
| image that is not an image reference          | InvalidImageName                               |
| `imagePullPolicy: Never` without the image    | ErrImageNeverPull; pulls add images to a node  |
| command and args `true`, `false`, `exit N`    | exits with 0, 1, N                             |
| `sleep N`                                     | exits with 0 after N s; never for `infinity`   |
| `sh -c SCRIPT` of such commands and `echo`    | exits as the script does; others never exit    |
| `echo TEXT`, `echo TEXT > FILE`               | the log, and `/dev/termination-log`            |
| a container that has exited                   | restarts by restartPolicy; CrashLoopBackOff    |
| env `SIMULATOR_MEMORY` above `limits.memory`  | OOMKilled, exit code 137                       |
| startup, liveness and readiness probes        | see `probes.py`: Unhealthy, Killing, restarts  |
| env `SIMULATOR_READINESS=fail`                | runs, never ready                              |
| `SIMULATOR_SIGTERM=ignore`, or `trap '' TERM` | stops when its grace period is over, with 137  |
| more GPUs or devices than the node has free   | rejected: Failed, UnexpectedAdmissionError     |
| a variable from a missing Secret or key       | CreateContainerConfigError until it exists     |
| a volume of a missing Secret or ConfigMap     | ContainerCreating and FailedMount until then   |
| init containers                               | are reported as completed                      |
| the image `ECHO_IMAGE`                        | runs as a local web server; see `echo.py`      |
| an image of `programs.MODULES`                | runs as a local process; see `processes.py`    |

A stopped container ends immediately on SIGTERM, with exit code 0. A real program without a handler
for SIGTERM does not: as process 1 it ignores the signal until its grace period is over. Volumes
exist only for local processes, as folders; so `/dev/shm` is the one of the machine. The back-off
equals the back-off of a real kubelet: 10 s, doubled up to 5 minutes.

`endpoint.py` serves the logs of containers and runs commands in them (`kubectl exec`): it
interprets the commands above and `cat`, and executes nothing.

Tests control the nodes through the ConfigMap `kube-system/simulated-kubelet`; see `control.py`.

All state is stored in the status of the pods, so the process can be killed at any time. While it
runs, it corrects a status that another client has written, like a real kubelet.
"""
