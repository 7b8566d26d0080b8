#!/bin/busybox sh
# The first process of the storage machine: reaches its root, then hands over to the agent.
b=/bin/busybox
$b mkdir -p /proc /sys /dev /root
$b mount -t devtmpfs dev /dev
while read -r module; do $b insmod "/modules/$module"; done </order
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
until [ -b /dev/vda ]; do $b sleep 0.05; done
$b mount -t ext4 -o ro /dev/vda /root
for place in dev proc sys; do $b mount --move "/$place" "/root/$place"; done
exec $b switch_root /root /bin/bash -c '
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LVM_SUPPRESS_FD_WARNINGS=1
for place in /run /tmp /etc/lvm /var /data; do mount -t tmpfs tmpfs $place; done
mkdir -p /run/lock/lvm /run/lvm /var/lib
for module in nvme raid0 raid1 raid456 raid10 dm_mod xfs ext4; do modprobe $module; done
mount -t ext4 -o ro /dev/vdb /opt/peaker
exec python3 /opt/peaker/tests/storage/guest_agent.py
'
