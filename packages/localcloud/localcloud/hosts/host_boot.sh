# Runs as process 1 of a new host, in its own namespaces, and becomes its init.
# Arguments: lower directory, writable directory (upper/, work/, root/), host name.
set -eu
lower=$1 writable=$2 name=$3
root=$writable/root
# /proc is still the machine's here, so this is the number that the machine knows process 1 by.
read -r pid _ < /proc/self/stat

mount -t overlay overlay -o "lowerdir=$lower,upperdir=$writable/upper,workdir=$writable/work" "$root"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
# A host must not change the machine's settings.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
[ ! -e "$root/proc/sysrq-trigger" ] || mount --bind /dev/null "$root/proc/sysrq-trigger"
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
mount -t tmpfs -o mode=755,nosuid,size=64m tmpfs "$root/run"
mkdir -p "$root/run/lock" "$root/run/mysqld"
chroot "$root" chown mysql:mysql /run/mysqld

mount -t tmpfs -o mode=755,nosuid,noexec,size=1m tmpfs "$root/dev"
[ ! -c /dev/fuse ] || mknod -m 666 "$root/dev/fuse" c 10 229
mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/dev/disk/by-id"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/zero" c 1 5
mknod -m 666 "$root/dev/full" c 1 7
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
mknod -m 666 "$root/dev/tty" c 5 0
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5,nosuid,noexec devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev,size=256m tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"

hostname "$name"
cd "$root"
pivot_root . .
umount -l .
cd /
# Ignoring SIGCHLD makes the kernel reap orphans; killing this process kills everything in the host.
echo "ready $pid"
exec env --ignore-signal=CHLD sleep infinity > /dev/null 2>&1
