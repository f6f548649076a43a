#!/bin/sh
# Compiles the variants of variants.list to SPIR-V and writes one C header with all of them and a table:
#   build.sh GLSLANG SOURCE-FOLDER OUTPUT
# A module is kept in OUTPUT.d and compiled again only when some shader is newer.
set -eu
glslang=$1 src=$2 out=$3
work=$out.d
mkdir -p "$work"
# Shaders include each other: the newest of them all decides.
newest=$(ls -t "$src"/include/*.glsl "$src"/include/*/*.glsl "$src"/*.comp "$src"/*.h "$src"/build.sh "$src"/variants.list | head -n 1)
while read -r name source defines; do
    case $name in '' | '#'*) continue ;; esac
    header=$work/$name.spv.h
    if ! [ -s "$header" ] || [ "$newest" -nt "$header" ]; then
        # shellcheck disable=SC2086 # defines are words
        "$glslang" -V --quiet --target-env vulkan1.2 $defines -I"$src" -I"$src/include" --vn "spirv_$name" -o "$header.new" \
            "$src/$source" || { echo "build.sh: $name ($source $defines) failed" >&2; exit 1; }
        mv "$header.new" "$header"
    fi
done <"$src/variants.list"
{
    echo '/* Made by build.sh from variants.list. */'
    while read -r name source defines; do
        case $name in '' | '#'*) continue ;; esac
        sed -e '/^[[:space:]]*\/\//d' -e '/#pragma once/d' -e 's/^const uint32_t/static const uint32_t/' "$work/$name.spv.h"
    done <"$src/variants.list"
    echo 'const struct shader shader_table[] = {'
    while read -r name source defines; do
        case $name in '' | '#'*) continue ;; esac
        echo "    {\"$name\", spirv_$name, sizeof spirv_$name},"
    done <"$src/variants.list"
    echo '};'
    echo 'const int shader_table_n = sizeof shader_table / sizeof shader_table[0];'
} >"$out.new"
mv "$out.new" "$out"
