#!/bin/sh
# Bring a bare Debian or Ubuntu to where `make demo`, `make test` and `sudo kvfabric emulate` work.
#
#   sudo sh vm/provision.sh [USER]
#
# USER (default: vagrant, else who called sudo) gets ~/kvfabric for the environment, the build and
# results, and a profile that points make there. Running it again changes nothing.
set -eu

[ "$(id -u)" = 0 ] || { echo 'provision: run it as root: sudo sh vm/provision.sh' >&2; exit 1; }
command -v apt-get >/dev/null || { echo 'provision: apt-get is missing; use Debian or Ubuntu' >&2; exit 1; }

user=${1:-}
if [ -z "$user" ]; then
    if id vagrant >/dev/null 2>&1; then user=vagrant; else user=${SUDO_USER:-root}; fi
fi
home=$(getent passwd "$user" | cut -d: -f6)
[ -d "$home" ] || { echo "provision: user $user has no home folder; name another user" >&2; exit 1; }

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends \
    g++ make python3 python3-dev python3-venv \
    mininet ethtool iputils-ping iproute2 kmod tcpdump

# A service of the package that would take switches over; nothing here uses it.
systemctl disable --quiet --now openvswitch-switch 2>/dev/null || true

place=$home/kvfabric
install -d -o "$user" -g "$(id -gn "$user")" "$place"
cat > /etc/profile.d/kvfabric.sh <<PROFILE
# Written by vm/provision.sh: the guest's own environment, build and results.
export VENV=$place/venv OUT=$place/out SKBUILD_BUILD_DIR=$place/build/{wheel_tag}
PROFILE
cat > /usr/local/bin/kvfabric <<WRAPPER
#!/bin/sh
[ -x "$place/venv/bin/kvfabric" ] || { echo 'kvfabric is not set up yet; run make demo first' >&2; exit 1; }
exec "$place/venv/bin/kvfabric" "\$@"
WRAPPER
chmod 755 /usr/local/bin/kvfabric

# What real TCP across real queues needs, in kernels that have it as modules.
for module in sch_red sch_ets sch_netem sch_htb sch_tbf tcp_dctcp tcp_bbr; do
    modprobe -q "$module" || echo "provision: this kernel has no $module; kvfabric doctor tells what that costs"
done
echo 'provision: ready. Next: make demo (as the user, after logging in again)'
