# 64-bit Arm on another machine: the cross compiler, qemu-user, and the target's libraries.
# shellcheck shell=bash

AARCH64_ROOT=$BUILD/aarch64-root

# Debian's packages for arm64, unpacked into a folder of their own with package lists of their own: what is installed
# here, and which architectures this system takes, stays as it is.
unpack_aarch64() {
    local state=$BUILD/aarch64-apt deb
    local -a apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$state"
        -o Dir::State::status=/dev/null -o Dir::Cache="$state" -o Acquire::Languages=none -o APT::Sandbox::User=)
    rm -rf "$state" "$AARCH64_ROOT.part"
    mkdir -p "$state/lists/partial" "$state/archives/partial" "$state/packages" "$AARCH64_ROOT.part"
    "${apt[@]}" update || true
    (cd "$state/packages" && "${apt[@]}" download libdlpack-dev libcjson1 libcjson-dev libcmocka0 libcmocka-dev)
    for deb in "$state"/packages/*.deb; do dpkg -x "$deb" "$AARCH64_ROOT.part"; done
    rm -rf "$state" "$AARCH64_ROOT"
    mv "$AARCH64_ROOT.part" "$AARCH64_ROOT"
}

# All that preset aarch64 needs; fails with the reason.
need_aarch64() {
    if ! have aarch64-linux-gnu-gcc || ! have qemu-aarch64; then
        if ! may_install || ! apt_install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user; then
            say "gcc-aarch64-linux-gnu and qemu-user are not here and could not be installed"
            return 1
        fi
    fi
    [[ ! -f $AARCH64_ROOT/usr/include/cjson/cJSON.h ]] || return 0
    # In a shell of its own, where `set -e` holds.
    if ! have apt-get || ! "$ROOT/dev" call unpack_aarch64; then
        say "the target's libraries could not be had: libcjson-dev and libcmocka-dev for arm64"
        return 1
    fi
}

# The named targets, without the slow optimisations: a third of the compiler time. `cmake --preset aarch64` has them.
build_aarch64() {
    quietly "configure aarch64" cmake --preset aarch64 -DCMAKE_C_FLAGS=-DSB_NO_UNROLL \
        -DCMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG"
    quietly "build aarch64" cmake --build "$BUILD/aarch64" -j "$JOBS" --target "$@"
}
