#!/usr/bin/env bash
# Makes the machine of `make test-storage` in build/storage-machine: Debian's cloud kernel (md, device mapper, XFS, ext4,
# NVMe) with a small initial root, and a root filesystem with mdadm, LVM and Python. Runs again in no time.
set -euo pipefail
cd "$(dirname "$0")/../.."
out="$PWD/build/storage-machine"
stamp="$(cat "$0" tests/storage/guest_init.sh | sha256sum)"
[ "$(cat "$out/.made" 2>/dev/null || true)" != "$stamp" ] || exit 0
rm -rf "$out"
mkdir -p "$out/initial/bin" "$out/initial/modules"
root="$out/root"
packages=linux-image-cloud-amd64,busybox-static,python3,mdadm,lvm2,dmsetup,xfsprogs,e2fsprogs,util-linux,mount,coreutils,bash
mmdebstrap --mode=root --variant=extract --format=directory --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --aptopt='Apt::Install-Recommends "false"' --include="$packages" bookworm "$root" >"$out/mmdebstrap.log" 2>&1 \
    || { tail -n 15 "$out/mmdebstrap.log" >&2; echo "the root of the storage machine could not be made (whole log: $out/mmdebstrap.log)" >&2; exit 1; }
kernel="$(basename "$(ls -d "$root"/lib/modules/*)")"
cp "$root/boot/vmlinuz-$kernel" "$out/vmlinuz"
chroot "$root" /sbin/depmod "$kernel"
ln -sf python3.11 "$root/usr/bin/python3" 2>/dev/null || true
cp "$root/bin/busybox" "$out/initial/bin/"
# What it takes to reach the root filesystem, in the order in which it is loaded.
for module in virtio_pci virtio_blk ext4; do
    chroot "$root" /sbin/modprobe --show-depends -S "$kernel" "$module"
done | sed -n 's/^insmod //p' | awk '!seen[$1]++ {print $1}' | while read -r path; do
    cp "$root$path" "$out/initial/modules/"
    basename "$path"
done >"$out/initial/order"
cp tests/storage/guest_init.sh "$out/initial/init"
chmod +x "$out/initial/init"
(cd "$out/initial" && find . | cpio -o -H newc --quiet) | gzip -1 >"$out/initrd.gz"
rm -rf "$root"/usr/share/{doc,man,locale,info} "$root"/var/cache/apt "$root"/var/lib/apt "$root"/boot
mkdir -p "$root"/{proc,sys,dev,run,tmp,opt/peaker,data}
mke2fs -q -t ext4 -O ^has_journal -m 0 -d "$root" "$out/root.img" 900M
rm -rf "$root" "$out/initial"
printf '%s' "$stamp" >"$out/.made"
