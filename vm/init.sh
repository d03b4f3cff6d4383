#!/bin/busybox sh
# First process of the guest: reach the host's files over 9p, lay a memory overlay over them, run the
# command of the order folder there, leave its exit code in that folder, power off.
export PATH=/bin
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
off() { echo o > /proc/sysrq-trigger; $b sleep 60; }
$b grep -q kvfabric.trial /proc/cmdline && off
for module in /mod/*.ko; do $b insmod "$module" || echo "init: $module refused"; done

$b mkdir -p /low /up /order
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /low || off
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 order /order || off
$b mount -t tmpfs -o size=75% tmpfs /up
$b mkdir /up/data /up/work
$b mount -t overlay -o lowerdir=/low,upperdir=/up/data,workdir=/up/work overlay /new || off

for kind in proc:proc sysfs:sys devtmpfs:dev tmpfs:run; do
    $b mount -t "${kind%%:*}" none "/new/${kind#*:}"
done
$b mkdir -p /new/dev/pts /new/dev/shm
$b mount -t devpts devpts /new/dev/pts
$b mount -t tmpfs tmpfs /new/dev/shm
$b mount -t cgroup2 cgroup2 /new/sys/fs/cgroup

modules=$($b cat /order/modules)
release=$($b uname -r)
$b mkdir -p "/new/lib/modules/$release"
$b mount --bind "/low$modules" "/new/lib/modules/$release"
# The unpacked package has the text tables that busybox reads, not those of the host's kmod.
# What the kernel itself loads is looked for here, beside this script.
$b mkdir -p /new/run/bin /lib/modules/"$release"
$b mount --bind "/low$modules" "/lib/modules/$release"
$b ln -s /bin/busybox /bin/modprobe
echo /bin/modprobe > /proc/sys/kernel/modprobe
results=$($b cat /order/results)
$b mkdir -p "/new$results"
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 results "/new$results" || off

$b ip link set lo up
$b hostname kvfabric-vm
$b cp $b /new/run/bin/busybox
$b ln -sf /run/bin/busybox /new/run/bin/modprobe
$b cp /order/command /new/run/command
console=/dev/hvc0
[ -c $console ] || console=/dev/ttyS0
$b stty -F $console -opost 2>/dev/null
HOME=/root TERM=dumb LANG=C.UTF-8 PATH=/run/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    $b chroot /new /bin/sh /run/command < /dev/null > $console 2>&1
echo $? > /order/exit
$b sync
off
