r"""Simulated nodes with GPUs and their kubelets: a client of any Kubernetes API server.

    python -m gpuplatform.dev.simulator.kubelet --kubeconfig FILE --nodes 3 --gpus 8

Most containers run no program: the kubelet only reports their state, which follows from the spec
of the pod:

| in the spec                                   | reported state                                 |
|-----------------------------------------------|------------------------------------------------|
| none of the following                         | runs without end and is ready                  |
| image on a host that ends in `.invalid`       | ErrImagePull, ImagePullBackOff, and so on      |
| image that is not an image reference          | InvalidImageName                               |
| command and args `true`, `false`, `exit N`    | ends with 0, 1, N                              |
| `sleep N`                                     | ends with 0 after N seconds; `infinity`: never |
| `sh -c SCRIPT` of such commands and `echo`    | ends as the script does; others never end      |
| a container that ended                        | restarts by restartPolicy; CrashLoopBackOff    |
| env `SIMULATOR_MEMORY` above `limits.memory`  | OOMKilled, exit code 137                       |
| env `SIMULATOR_READINESS=fail`                | runs, never ready                              |
| `readinessProbe.initialDelaySeconds`          | ready after this delay                         |
| `SIMULATOR_SIGTERM=ignore`, or `trap '' TERM` | stops when its grace period is over, with 137  |
| more `nvidia.com/gpu` than the node has left  | rejected: Failed, UnexpectedAdmissionError     |
| a variable from a missing Secret or key       | CreateContainerConfigError until it exists     |
| init containers                               | count as completed                             |
| the image `ECHO_IMAGE`                        | runs as a local web server; see `echo.py`      |
| an image of `programs.MODULES`                | runs as a local process; see `processes.py`    |

A stopped container ends immediately on SIGTERM. The back-off is that of a kubelet: 10 s, doubled
up to 5 minutes.

Tests control the nodes by the ConfigMap `kube-system/simulated-kubelet`; see `control.py`.

The state is in the status of the pods, so the process can be killed at any time.
"""
