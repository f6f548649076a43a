#!/bin/sh
# The image of the Containerfile from nothing to the first answer. By hand, as root, not part of the check:
#   tests/package/image.sh [PACKAGE.deb] [WORK]
# builds it by buildah with chroot isolation, which works where no container can run; with PACKAGE the stage that would build one is left
# out and this one is taken. Then it looks at what the image says of itself and holds, runs its command as its user in a root of its own,
# makes the admin by the link, and gets an answer. Prints how long each step took. Needs buildah, debootstrap, curl and bc.
# BASE: the image to begin from (default: a Debian 12 made by debootstrap in WORK, for machines that reach no registry of images).
set -eu
package=${1:+$(realpath "$1")} work=${2:-/var/tmp/sluice-image} top=$(realpath "$(dirname "$0")/../..")
port=${PORT:-8099} base=${BASE:-}
say() { printf '%8.1f s  %s\n' "$(echo "$(date +%s.%N) - $began" | bc)" "$*"; }
die() { echo "FAILED: $*" >&2; exit 1; }
finish() {
	[ -z "${server:-}" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
	[ -z "${container:-}" ] || { umount "$work/mount/proc" "$work/mount/dev" 2>/dev/null || true; rm -f "$work/mount"; buildah rm "$container" >/dev/null 2>&1 || true; }
}
trap finish EXIT
trap "exit 1" INT TERM
mkdir -p "$work"
if [ -z "$base" ]; then
	[ -e "$work/bare/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$work/bare" ${MIRROR:+"$MIRROR"} >"$work/debootstrap.log" || die "debootstrap"
	base=localhost/sluice-base
	if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
		from=$(buildah from scratch) && buildah add -q "$from" "$work/bare" / >/dev/null && buildah commit -q "$from" "$base" >/dev/null && buildah rm "$from" >/dev/null
	fi
fi
began=$(date +%s.%N)
if [ -n "$package" ]; then
	rm -rf "$work/context" && mkdir "$work/context" && cp "$package" "$work/context/sluice_given.deb"
	{ printf 'ARG BASE\nFROM scratch AS build\nCOPY sluice_given.deb /src/\n'; sed -n '/^FROM ${BASE}$/,$p' "$top/Containerfile"; } >"$work/context/Containerfile"
	context=$work/context
else
	context=$top
fi
buildah bud --isolation chroot --build-arg BASE="$base" -t sluice "$context" >"$work/build.log" 2>&1 || { tail -20 "$work/build.log" >&2; die "buildah bud"; }
say "the image is built"
buildah inspect --type image sluice >"$work/inspect.json"
for says in '"User": "sluice"' '"/var/lib/sluice": {}' '"8080/tcp": {}' '"--without-first-admin"'; do grep -q -- "$says" "$work/inspect.json" || die "the image does not say $says"; done
container=$(buildah from sluice)
root=$(buildah mount "$container")
rm -f "$work/mount" && ln -s "$root" "$work/mount"
[ -z "$(find "$root/var/lib/sluice" -mindepth 1)" ] || die "the image holds a state"
[ "$(stat -c %U:%a "$root/var/lib/sluice" 2>/dev/null | cut -d: -f2)" = 700 ] || die "mode of the state folder"
[ ! -e "$root/usr/bin/gcc" ] || die "the image holds a compiler"
say "what it holds and says of itself is right; $(du -sm "$root" | cut -f1) MB unpacked"
mount --bind /proc "$root/proc" && mount --bind /dev "$root/dev"
ids=$(sed -n 's/^sluice:[^:]*:\([0-9]*\):\([0-9]*\):.*/\1:\2/p' "$root/etc/passwd")
command=$(buildah inspect --type image --format '{{range .OCIv1.Config.Entrypoint}}{{.}} {{end}}' sluice)
enter() { exec chroot --userspec="$ids" --groups= "$root" env -i HOME=/var/lib/sluice PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
# shellcheck disable=SC2086
enter $command --port "$port" >"$work/up.log" 2>&1 &
server=$!
until [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/health" || true)" = 200 ]; do
	kill -0 "$server" 2>/dev/null || die "it ended: $(tail -5 "$work/up.log")"
	sleep 0.1
done
say "its command, as $(echo "$ids" | cut -d: -f1), is ready"
link=$( (enter sluice user invite --admin 2>/dev/null) | sed -n 's|.*/#/invite/\([A-Za-z0-9_-]*\).*|\1|p' | head -1)
ask() { curl -sS --fail-with-body -H 'Content-Type: application/json' "$@"; }
member() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
csrf=$(ask -c "$work/cookies" -d "{\"name\":\"ada\",\"password\":\"a long password\",\"invite\":\"$link\"}" "http://127.0.0.1:$port/api/sign-up" | member csrf)
key=$(ask -b "$work/cookies" -H "X-CSRF-Token: $csrf" -d '{"name":"first"}' "http://127.0.0.1:$port/api/keys" | member key)
answer=$(ask -H "Authorization: Bearer $key" -d '{"messages":[{"role":"user","content":"Who are you?"}],"max_tokens":40}' "http://127.0.0.1:$port/v1/chat/completions" | member content)
[ -n "$answer" ] || die "no answer"
say "the first answer: $answer"
