r"""Plays nodes with GPUs and their kubelets, as an ordinary client of any Kubernetes API server.

    python -m gpuplatform.dev.simulator.kubelet --kubeconfig FILE --nodes 3 --gpus 8

Almost nothing runs: a pod's containers only report. What they report follows from the pod's spec:

| in the spec                                   | what the pod does                              |
|-----------------------------------------------|------------------------------------------------|
| anything not named below                      | runs for ever and is ready                     |
| image on a host that ends in `.invalid`       | ErrImagePull and ImagePullBackOff in turns     |
| image that is no image reference              | InvalidImageName                               |
| command and args `true`, `false`, `exit N`    | ends with 0, 1, N                              |
| `sleep N`                                     | ends with 0 after N seconds; `infinity`: never |
| `sh -c SCRIPT` of such commands and `echo`    | ends as the script does; another word: never   |
| a container that ended                        | starts again by restartPolicy; CrashLoopBackOff |
| env `SIMULATOR_MEMORY` above `limits.memory`  | OOMKilled, exit code 137                       |
| env `SIMULATOR_READINESS=fail`                | runs, never ready                              |
| `readinessProbe.initialDelaySeconds`          | ready that much later                          |
| `SIMULATOR_SIGTERM=ignore`, or `trap '' TERM` | stops when its grace period is over, with 137  |
| more `nvidia.com/gpu` than the node has left  | rejected: Failed, UnexpectedAdmissionError     |
| a variable from a Secret or key not there     | CreateContainerConfigError until it is         |
| init containers                               | count as done                                  |
| the image `ECHO_IMAGE`                        | is a local web server; see `echo.py`           |
| an image of `programs.MODULES`                | is a process of this machine; `processes.py`   |

A stopped container ends on SIGTERM at once. Back-off is the kubelet's: 10 s, doubled up to 5 min.

Tests steer it by the ConfigMap `kube-system/simulated-kubelet`, key `control`; see `control.py`.

It keeps no state: the pods' statuses say how far each is, so it may be killed at any time.
"""
