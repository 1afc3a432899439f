# ./dev package and ./dev reference: Debian packages, the API reference.
# shellcheck shell=bash

# Packages of a build folder, into build/packages; lintian looks at them where it is installed.
pack() {
    rm -rf "$BUILD/packages"
    (cd "$1" && cpack -B "$BUILD/packages")
    if have lintian; then lintian --allow-root --fail-on error "$BUILD/packages"/*.deb; fi
    # What they hold works together.
    local tree=$BUILD/packages/tree package
    for package in "$BUILD/packages"/*.deb; do dpkg-deb -x "$package" "$tree"; done
    LD_LIBRARY_PATH=$(dirname "$(find "$tree" -name libsamebits.so.0)") "$tree/usr/bin/samebits" fingerprint --check
}

cmd_package() {
    need_packages build
    quietly "configure package" cmake -S "$ROOT" -B "$BUILD/package" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        -DCMAKE_INSTALL_PREFIX=/usr
    quietly "build package" cmake --build "$BUILD/package" -j "$JOBS"
    quietly "packages" pack "$BUILD/package"
    say "Built: $(printf '%s ' "$BUILD/packages"/*.deb)"
}

reference() { (cd "$ROOT" && doxygen docs/api.doxygen); }

cmd_reference() {
    have doxygen || die "doxygen is missing; as root: apt-get install doxygen"
    quietly "API reference" reference
    say "Built: $BUILD/api/html/index.html"
}

# The packages of the release, and the reference without a warning.
test_package() {
    if have dpkg-deb; then
        step "Debian packages" pack "$RELEASE" || true
    else
        step "Debian packages" skip "this system has no dpkg" || true
    fi
    step "API reference" reference || true
}
