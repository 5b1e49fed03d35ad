#!/bin/sh
# Process 1 of a node: create a root file system, then become `pause`, which reaps processes. The root
# is a tmpfs, and its /usr is the machine's with the unpacked packages on top, so that every other
# default path belongs to this node alone.
#   init.sh NAME STATE PACKAGES HIERARCHY…
# STATE has the folders etc, programs, containerd, kubelet and logs. Each HIERARCHY is one of control
# groups of version 1; without one version 2 is used.
set -eu

name=$1 state=$2 packages=$3
shift 3
root=$state/root

mount -t tmpfs -o mode=755 node "$root"
cd "$root"
mkdir -p usr etc dev proc sys run tmp root old opt/programs \
    var/lib/containerd var/lib/kubelet var/log/pods var/log/containers
chmod 1777 tmp
for directory in bin sbin lib lib32 lib64; do
    if [ -L "/$directory" ]; then ln -s "usr/$directory" "$directory"; fi
done
# Read-only, since it has no upper directory.
mount -t overlay -o "lowerdir=$packages/usr:/usr" overlay usr
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount --bind "$state/etc" etc
mount --bind "$state/programs" opt/programs
mount --bind "$state/logs" var/log/pods
# The snapshots of containerd are overlays, whose upper directory may not be on an overlay.
mount --bind "$state/containerd" var/lib/containerd
mount --bind "$state/kubelet" var/lib/kubelet
mount --make-rshared var/lib/kubelet

# The cgroup namespace begins at the node's groups: these mounts show only those.
groups=sys/fs/cgroup
if [ $# = 0 ]; then
    mount -t cgroup2 cgroup2 "$groups"
else
    mount -t tmpfs -o mode=755 tmpfs "$groups"
fi
for hierarchy in "$@"; do
    directory=$groups/${hierarchy#name=}
    mkdir "$directory"
    case $hierarchy in
    name=*) mount -t cgroup -o "none,$hierarchy" cgroup "$directory" ;;
    *) mount -t cgroup -o "$hierarchy" cgroup "$directory" ;;
    esac
    case $hierarchy in *,*)
        for controller in $(echo "$hierarchy" | tr , ' '); do
            ln -s "$hierarchy" "$groups/$controller"
        done
        ;;
    esac
done

pivot_root . old
cd /
umount -l /old
rmdir /old

# The kubelet sets these values of the whole machine unless they are set: it reads and writes copies.
mkdir /run/sysctl
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    copy=/run/sysctl/$(basename "${setting%=*}")
    echo "${setting#*=}" >"$copy"
    mount --bind "$copy" "/proc/sys/${setting%=*}"
done
hostname "$name"
echo ready
exec /opt/programs/pause
