#!/bin/sh
# The Debian package from a bare Debian 12 to the first answer, and out again. By hand, as root, not part of the check:
#   tests/package/chroot.sh PACKAGE.deb [NEWER.deb] [WORK]
# makes a root by debootstrap in WORK (default /var/tmp/sluice-package), installs the package by apt with what it needs, starts the
# service's own command line (systemd does not run in a chroot), makes the admin by the printed link, gets an answer, installs NEWER over
# it (default: the same package with a higher version), checks that a changed configuration, users and chats are kept, removes and purges.
# Prints how long each step took. Needs debootstrap, curl, bc and a Debian mirror (MIRROR: another one than debootstrap's own).
set -eu
[ $# -ge 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
package=$(realpath "$1") newer=${2:-} work=${3:-/var/tmp/sluice-package}
root=$work/root port=${PORT:-8080}
say() { printf '%8.1f s  %s\n' "$(echo "$(date +%s.%N) - $began" | bc)" "$*"; }
die() { echo "FAILED: $*" >&2; exit 1; }
enter() { exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
inside() { (enter "$@"); }
finish() {
	[ -z "${server:-}" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
	for m in dev/pts dev proc sys; do umount "$root/$m" 2>/dev/null || true; done
}
trap finish EXIT
trap "exit 1" INT TERM
# The bare system is no part of what is measured: it is kept, and each run takes a copy.
mkdir -p "$work"
[ -e "$work/bare/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$work/bare" ${MIRROR:+"$MIRROR"} >"$work/debootstrap.log" ||
	die "debootstrap: see $work/debootstrap.log"
grep -q " $root/" /proc/mounts && die "something is mounted below $root"
rm -rf --one-file-system "$root" && cp -a "$work/bare" "$root"
for m in proc sys dev dev/pts; do mount --bind "/$m" "$root/$m"; done
cp /etc/resolv.conf "$root/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod +x "$root/usr/sbin/policy-rc.d"
[ -z "${PROXY:-}" ] || echo "Acquire::http::Proxy \"$PROXY\";" >"$root/etc/apt/apt.conf.d/01proxy"
cp "$package" "$root/tmp/sluice.deb"

run_service() { # the unit's own command line, as root; the answer is in $root/tmp/up.log
	command=$(sed -n 's/^ExecStart=//p' "$root/lib/systemd/system/sluice.service")
	mask=$(sed -n 's/^UMask=//p' "$root/lib/systemd/system/sluice.service")
	# shellcheck disable=SC2016
	enter sh -c 'set -a; . /etc/sluice/sluice.env; umask '"$mask"'; ulimit -n 65536; eval "exec '"$command"'"' >"$root/tmp/up.log" 2>&1 &
	server=$!
	for _ in $(seq 600); do
		[ "$(curl -s -o "$work/health" -w '%{http_code}' "http://127.0.0.1:$port/health" || true)" = 200 ] && return
		kill -0 "$server" 2>/dev/null || die "the service ended: $(cat "$root/tmp/up.log")"
		sleep 0.1
	done
	die "the service does not answer: $(cat "$root/tmp/up.log")"
}
stop_service() { kill "$server"; wait "$server" || true; server=; }
ask() { curl -sS --fail-with-body -H 'Content-Type: application/json' "$@"; }
member() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

began=$(date +%s.%N)
inside apt-get update -qq
say "apt-get update"
inside apt-get install -y -qq /tmp/sluice.deb >"$work/install.log" 2>&1 || { tail -20 "$work/install.log" >&2; die "apt install"; }
say "apt install ./sluice.deb"
link=$(tr -d '\r' <"$work/install.log" | sed -n 's|^ *\(http[^ ]*/#/invite/[A-Za-z0-9_-]*\)$|\1|p') # apt's terminal ends lines so
[ -n "$link" ] || die "no link was printed"
[ "$port" = 8080 ] || sed -i "s/^SLUICE_OPTIONS=.*/SLUICE_OPTIONS=\"--port $port\"/" "$root/etc/sluice/sluice.env"
run_service
say "the server is ready"
session=$(ask -c "$work/cookies" -d "{\"name\":\"ada\",\"password\":\"a long password\",\"invite\":\"${link##*/}\"}" "http://127.0.0.1:$port/api/sign-up")
csrf=$(echo "$session" | member csrf)
key=$(ask -b "$work/cookies" -H "X-CSRF-Token: $csrf" -d '{"name":"first"}' "http://127.0.0.1:$port/api/keys" | member key)
[ -n "$key" ] || die "no key"
answer=$(ask -H "Authorization: Bearer $key" -d '{"messages":[{"role":"user","content":"Who are you?"}],"max_tokens":40}' "http://127.0.0.1:$port/v1/chat/completions" | member content)
[ -n "$answer" ] || die "no answer"
say "the first answer: $answer"

users=$(ps -o user= --ppid "$server" -p "$server" 2>/dev/null | sort -u | tr '\n' ' ')
[ "$(stat -c %a "$root/var/lib/sluice")" = 710 ] || die "mode of the state folder"
inside sh -c 'test "$(stat -c %U /var/lib/sluice)" = sluice' || die "owner of the state folder"
pgrep -f "^/usr/libexec/sluice/sluice-engine" -u "$(inside id -u sluice-engine)" >/dev/null || die "the engine runs as another user ($users)"
inside man -w sluice >/dev/null 2>&1 || [ -e "$root/usr/share/man/man1/sluice.1.gz" ] || die "no man page"
inside sluice doctor --state /var/lib/sluice >"$work/doctor" 2>&1 || say "doctor: $(grep -c . "$work/doctor") lines, see $work/doctor"
stop_service

echo '# changed by hand' >>"$root/etc/sluice/sluice.env"
if [ -z "$newer" ]; then # the same package under a higher version
	dpkg-deb -R "$package" "$work/newer" && sed -i 's/^\(Version: .*\)$/\1+1/' "$work/newer/DEBIAN/control"
	dpkg-deb -Zgzip -z1 -b "$work/newer" "$work/newer.deb" >/dev/null && rm -rf "$work/newer" && newer=$work/newer.deb
fi
cp "$newer" "$root/tmp/newer.deb"
began=$(date +%s.%N)
inside apt-get install -y -qq /tmp/newer.deb >"$work/upgrade.log" 2>&1 || die "upgrade: $(tail -5 "$work/upgrade.log")"
grep -q '/#/invite/' "$work/upgrade.log" && die "an upgrade printed a link"
grep -q '# changed by hand' "$root/etc/sluice/sluice.env" || die "the configuration was lost"
run_service
[ "$(ask -H "Authorization: Bearer $key" "http://127.0.0.1:$port/v1/models" | member id)" ] || die "the key of before the upgrade"
say "upgraded to $(inside dpkg-query -W -f '${Version}' sluice): configuration, users and keys are kept"
stop_service

inside apt-get remove -y -qq sluice >"$work/remove.log" 2>&1 || die "remove"
[ -e "$root/var/lib/sluice/sluice.db" ] && [ -e "$root/etc/sluice/sluice.env" ] || die "remove took too much"
[ ! -e "$root/usr/bin/sluice" ] && [ ! -e "$root/usr/share/sluice" ] || die "remove left programs"
say "removed: state and configuration are kept"
inside apt-get install -y -qq /tmp/newer.deb >"$work/again.log" 2>&1 || die "install again"
run_service
[ "$(ask -H "Authorization: Bearer $key" "http://127.0.0.1:$port/v1/models" | member id)" ] || die "the key of before the removal"
say "installed again: users and keys are there"
stop_service
inside apt-get purge -y -qq sluice >"$work/purge.log" 2>&1 || die "purge: $(tail -5 "$work/purge.log")"
left=$(find "$root/etc" "$root/var" "$root/usr" "$root/lib/systemd" -xdev -name '*sluice*' -not -path '*/var/log/*' -not -path '*/var/lib/systemd/*' -not -path '*/var/cache/apt/*' 2>/dev/null || true)
[ -z "$left" ] || die "purge left: $left"
say "purged: nothing is left"
