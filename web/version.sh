#!/bin/sh
# Gives the page's files an address for each version: FOLDER/v/HASH has the files of that version, and the HTML asks for scripts, styles
# and the font there. A browser may keep those for ever (nginx/server.conf.in), since another version has another address; the HTML is always
# asked for. They are links to what is installed, which `install` and dpkg replace by new files: an address never gets other bytes. Scripts go
# without their comments, which stand under /js/. The version before stays for pages that are open.
#   version.sh FOLDER   (where the page is installed)
set -e
self=$(realpath "$0")
cd "$1"
hash=$({ find css js strings vendor -type f | LC_ALL=C sort | xargs sha256sum; sha256sum <"$self"; } | sha256sum | cut -c1-16)

# The modules that the chat page begins with, as each of them names the next: asked for at once, not one behind the other.
modules=
todo=js/main.js
while [ -n "$todo" ]; do
    next=
    for file in $todo; do
        case "$modules " in *" $file "*) continue ;; esac
        modules="$modules $file"
        next="$next $(sed -nE 's#^(import|export) (.* from )?"\./([a-z0-9_-]+\.js)";.*#js/\3#p' "$file")"
    done
    todo=$(echo $next)
done
links=$(for file in $modules; do printf '  <link rel="modulepreload" href="/v/%s/%s">\\n' "$hash" "$file"; done)

mkdir -p v
find v -type l -exec rm {} + # as it once was: the folder itself
rm -rf v/new
mkdir v/new
cp -Rl css js strings vendor v/new 2>/dev/null || { rm -rf v/new/*; cp -Rp css js strings vendor v/new; }
find v/new/js -name '*.js' -exec sed -i -E '\#^ *(//.*|/\*.*\*/ *)$#d; \#^ */\*([^*]|\*[^/])*\*?$#,\#\*/ *$#d' {} + # new files: the links' bytes stay
if [ -d "v/$hash" ]; then rm -rf v/new; else mv v/new "v/$hash"; fi
touch "v/$hash" # the newest
for page in index.html admin.html share.html; do
    sed -E -e '/rel="modulepreload"/d' -e "s#(href|src)=\"/?(v/[0-9a-f]+/)?(css|js|vendor)/#\\1=\"/v/$hash/\\3/#g" "$page" >v/new.html
    [ "$page" != index.html ] || sed -i "s#^  <script type=\"module\" src=\"[^\"]*/main.js#$links&#" v/new.html
    cat v/new.html >"$page"
done
rm v/new.html
ls -t v | tail -n +3 | while read -r old; do rm -rf "v/$old"; done
