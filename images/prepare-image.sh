#!/bin/bash
# Makes a fresh instance of Amazon Linux 2023, RHEL 9 (Rocky, Alma) or Ubuntu 24.04 the image of peak replicas: the
# server, what Peaker's host package runs, and nothing that belongs to one host. docs/first-hour.md says how to use it.
# As user data, or as root with POWER_OFF=no; a second run changes nothing.
set -euo pipefail

SERVER="${SERVER:-mysql}"  # mysql (Oracle's MySQL 8.4) or percona (Percona Server 8.4): the donor's
# Mount points of the cluster's volumes, and what else the donor's server writes.
DIRECTORIES="${DIRECTORIES:-/var/lib/mysql /var/lib/mysql-log}"
OWNER="${OWNER:-}"  # uid:gid of mysql on the donor; empty takes the package's
# The donor's server options, without server_id and read_only.
OPTIONS="${OPTIONS:-
gtid_mode = ON
enforce_gtid_consistency = ON
}"
# Where root@localhost of the donor needs a password, as with the RPMs: the lines of /etc/peaker/admin.cnf with a login.
# User data can be read by others: then give it as root.
ADMIN_CNF="${ADMIN_CNF:-}"
POWER_OFF="${POWER_OFF:-yes}"  # Stopped is how the instance says that it is ready.

# shellcheck source=/dev/null
. /etc/os-release
MYSQL_KEY=https://repo.mysql.com/RPM-GPG-KEY-mysql-2025
PERCONA_KEY=https://repo.percona.com/yum/PERCONA-PACKAGING-KEY
AGENT=https://s3.amazonaws.com/ec2-downloads-windows/SSMAgent/latest
OLDEST_AGENT=3.3.2746.0
# sysstat: iostat; e2fsprogs: debugfs; mdadm and lvm2: for layouts with a set of volumes.
PACKAGES=(fio sysstat xfsprogs e2fsprogs nvme-cli mdadm lvm2 python3)

fail() { echo "prepare-image: $*" >&2; exit 1; }

# Nothing is deleted but what the packages make below.
check_directories() {
    for directory in $DIRECTORIES; do
        case "$directory" in /*/?*) ;; *) fail "DIRECTORIES: $directory must be a directory such as /var/lib/mysql" ;; esac
        [ -z "$(ls -A "$directory" 2>/dev/null)" ] || fail "$directory holds data: begin with a fresh instance"
        ! mountpoint -q "$directory" || fail "$directory is mounted: an image is made without the cluster's volumes"
    done
}

give_account() {
    [ -n "$OWNER" ] || return 0
    getent group mysql >/dev/null || groupadd --system --gid "${OWNER#*:}" mysql
    getent passwd mysql >/dev/null || useradd --system --uid "${OWNER%:*}" --gid mysql --home-dir /var/lib/mysql --no-create-home --shell /sbin/nologin mysql
    [ "$(id -u mysql):$(id -g mysql)" = "$OWNER" ] || fail "mysql is $(id -u mysql):$(id -g mysql) here, not $OWNER: begin with a fresh instance"
}

install_with_dnf() {
    unit=mysqld
    case "$SERVER" in
        mysql) packages=(mysql-community-server); repository=https://repo.mysql.com/yum/mysql-8.4-community/el/9; key="$MYSQL_KEY" ;;
        percona) packages=(percona-server-server); repository=https://repo.percona.com/ps-84-lts/yum/release/9/RPMS; key="$PERCONA_KEY" ;;
    esac
    # Packages of EL 9 for Amazon Linux too; $basearch is for dnf.
    # shellcheck disable=SC2016
    printf '[%s]\nname=%s 8.4\nbaseurl=%s/$basearch\ngpgcheck=1\ngpgkey=%s\n' "$SERVER-84" "$SERVER" "$repository" "$key" >/etc/yum.repos.d/"$SERVER"-84.repo
    [ "$ID" = amzn ] || dnf -y -q module disable mysql || true
    # Its semanage labels directories; fio's engine is a package of its own.
    dnf -y install "${packages[@]}" "${PACKAGES[@]}" fio-engine-libaio policycoreutils-python-utils
    if [ "$ID" = amzn ]; then dnf -y install amazon-ssm-agent
    else rpm -q amazon-ssm-agent >/dev/null || dnf -y install "$AGENT/linux_$1/amazon-ssm-agent.rpm"; fi
    # The server reads what Peaker writes there; these RPMs name no directory.
    mkdir -p /etc/my.cnf.d
    grep -qs '^!includedir /etc/my.cnf.d' /etc/my.cnf || echo '!includedir /etc/my.cnf.d/' >>/etc/my.cnf
    options=/etc/my.cnf.d/50-cluster.cnf
}

install_with_apt() {
    export DEBIAN_FRONTEND=noninteractive
    unit=mysql
    apt-get update -q
    apt-get install -y -q ca-certificates curl
    mkdir -p /etc/apt/keyrings
    case "$SERVER" in
        mysql) packages=(mysql-server); source="https://repo.mysql.com/apt/ubuntu $VERSION_CODENAME mysql-8.4-lts"; key="$MYSQL_KEY" ;;
        percona) packages=(percona-server-server); source="https://repo.percona.com/ps-84-lts/apt $VERSION_CODENAME main"; key="$PERCONA_KEY" ;;
    esac
    curl -fsSL --retry 5 "$key" -o "/etc/apt/keyrings/$SERVER.asc"
    echo "deb [signed-by=/etc/apt/keyrings/$SERVER.asc] $source" >"/etc/apt/sources.list.d/$SERVER-84.list"
    # Above the archive's own 8.0.
    printf 'Package: *\nPin: origin %s\nPin-Priority: 1000\n' "$(cut -d/ -f3 <<<"$source")" >"/etc/apt/preferences.d/$SERVER-84"
    apt-get update -q
    apt-get install -y -q "${packages[@]}" "${PACKAGES[@]}"
    # No upgrade by itself: a server newer than the donor's series opens none of its files.
    apt-mark hold "${packages[@]}"
    systemctl disable --now apt-daily.timer apt-daily-upgrade.timer || true
    if snap list amazon-ssm-agent >/dev/null 2>&1; then snap refresh amazon-ssm-agent
    elif ! command -v amazon-ssm-agent >/dev/null; then
        curl -fsSL --retry 5 "$AGENT/debian_$1/amazon-ssm-agent.deb" -o /tmp/amazon-ssm-agent.deb
        dpkg -i /tmp/amazon-ssm-agent.deb
    fi
    mkdir -p /etc/mysql/conf.d
    options=/etc/mysql/conf.d/50-cluster.cnf
}

check_agent() {
    agent="$(command -v amazon-ssm-agent || echo /snap/amazon-ssm-agent/current/amazon-ssm-agent)"
    version="$("$agent" -version | grep -oE '[0-9]+(\.[0-9]+){3}' | tail -1)"
    [ "$(printf '%s\n' "$OLDEST_AGENT" "$version" | sort -V | head -1)" = "$OLDEST_AGENT" ] || fail "SSM agent $version; $OLDEST_AGENT or newer is needed"
}

# The server starts when Peaker starts it, on the copied volumes, and may recover for as long as it takes.
leave_no_server() {
    systemctl disable --now "$unit"
    mkdir -p "/etc/systemd/system/$unit.service.d"
    printf '[Service]\nTimeoutStartSec=infinity\n' >"/etc/systemd/system/$unit.service.d/start.conf"
    printf '[mysqld]\n%s\n' "$OPTIONS" >"$options"
    if [ -n "$ADMIN_CNF" ]; then
        install -D -m 600 /dev/null /etc/peaker/admin.cnf
        printf '%s\n' "$ADMIN_CNF" >/etc/peaker/admin.cnf
    fi
    for directory in $DIRECTORIES; do
        # An auto.cnf, which the package's first start wrote, would give all copies one server_uuid.
        rm -rf "$directory"
        install -d -o mysql -g mysql -m 750 "$directory"
        if [ -e /sys/fs/selinux/enforce ]; then
            semanage fcontext -a -t mysqld_db_t "$directory(/.*)?" 2>/dev/null || semanage fcontext -m -t mysqld_db_t "$directory(/.*)?"
            restorecon -R "$directory"
        fi
    done
    if [ -d /etc/apparmor.d ]; then
        mkdir -p /etc/apparmor.d/local
        for directory in $DIRECTORIES; do printf '%s/ r,\n%s/** rwk,\n' "$directory" "$directory"; done >/etc/apparmor.d/local/usr.sbin.mysqld
    fi
}

[ "$(id -u)" = 0 ] || fail "run it as root"
case "$SERVER" in mysql | percona) ;; *) fail "SERVER must be mysql or percona, got $SERVER" ;; esac
check_directories
give_account
export PERCONA_TELEMETRY_DISABLE=1
case "$(uname -m)" in aarch64) processor=arm64 ;; *) processor=amd64 ;; esac
case "$ID:$VERSION_ID" in
    amzn:2023* | rhel:9* | rocky:9* | almalinux:9*) install_with_dnf "$processor" ;;
    ubuntu:24.04) install_with_apt "$processor" ;;
    *) fail "$PRETTY_NAME: it knows Amazon Linux 2023, RHEL 9 (Rocky, Alma) and Ubuntu 24.04" ;;
esac
check_agent
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || fail "python3 is older than 3.9"
leave_no_server
echo "prepare-image: ready: $("$(command -v mysqld)" --version)"
[ "$POWER_OFF" != yes ] || shutdown -h now
