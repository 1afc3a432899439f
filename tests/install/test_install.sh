#!/bin/sh
# Installs, moves the installed tree elsewhere, and builds and runs the examples against it.
# Usage: CC=... CXX=... test_install.sh CMAKE BUILD SOURCE WORK LIBDIR
set -eu
cmake=$1 build=$2 source=$3 work=$4 libdir=$5

rm -rf "$work/first" "$work/moved" "$work/examples"
"$cmake" --install "$build" --prefix "$work/first" > "$work/install.log"
mv "$work/first" "$work/moved"
prefix=$work/moved
lib=$prefix/$libdir

for file in "$lib/libsamebits.so" "$lib/libsamebits.so.0" "$lib/libsamebits.a" "$lib/cmake/samebits/samebitsConfig.cmake" \
    "$prefix/include/samebits/samebits.h"; do
    [ -e "$file" ] || { echo "not installed: $file"; exit 1; }
done
if grep -rl -e "$build" -e "$source" "$lib/cmake" "$lib/pkgconfig" "$prefix/include"; then
    echo "the files above name the folder they were built in"
    exit 1
fi

echo "- CMake package"
"$cmake" -S "$source/examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$prefix" > "$work/examples.log"
"$cmake" --build "$work/examples" >> "$work/examples.log"
"$work/examples/matmul"
"$work/examples/matmul_static"
"$work/examples/linear"
"$work/examples/dlopen" "$lib/libsamebits.so.0"

echo "- pkg-config"
PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_PATH
version=$(pkg-config --modversion samebits)
"$CC" -std=c99 -Wall -Wextra -Werror "$source/examples/matmul.c" $(pkg-config --cflags --libs samebits) -o "$work/by_pkgconfig"
LD_LIBRARY_PATH=$lib "$work/by_pkgconfig"
"$CC" -std=c99 "$source/examples/matmul.c" $(pkg-config --cflags samebits) "$lib/libsamebits.a" \
    $(pkg-config --static --libs samebits | sed 's/-lsamebits//') -o "$work/by_pkgconfig_static"
"$work/by_pkgconfig_static"

if [ -x "$prefix/bin/samebits" ]; then
    echo "- the installed command"
    "$prefix/bin/samebits" info > "$work/info.log"
    grep -q "$version" "$work/info.log" || { echo "samebits info does not say $version"; exit 1; }
fi
