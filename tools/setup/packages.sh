# System packages: installed when we may, else named.
# shellcheck shell=bash

has_header() { printf '#include <%s>\n' "$1" | cc -E -x c - > /dev/null 2>&1; }

has_cmake() {
    local version
    version=$(cmake --version 2> /dev/null | sed -n 's/^cmake version \([0-9]*\.[0-9]*\).*/\1/p')
    [[ -n $version && $(printf '3.25\n%s\n' "$version" | sort -V | head -n 1) == 3.25 ]]
}

has_python_header() {
    python3 -c 'import os, sysconfig; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")'
}

# Debian's and Ubuntu's name of a package, and how to see that what it brings is here.
packages() {
    cat << 'LIST'
build-essential     have cc && have c++ && have make
cmake               has_cmake
pkg-config          have pkg-config
git                 have git
python3             have python3
python3-venv        python3 -c 'import venv, ensurepip'
python3-dev         has_python_header
libdlpack-dev       has_header dlpack/dlpack.h
libcurl4-openssl-dev pkg-config --exists libcurl
libcjson-dev        pkg-config --exists libcjson
LIST
    [[ $1 == test ]] || return 0
    cat << 'LIST'
libcmocka-dev       pkg-config --exists cmocka
ccache              have ccache
clang               have clang
doxygen             have doxygen
libomp-dev          echo '#include <omp.h>' | clang -fopenmp -E -
LIST
}

missing_packages() {
    local name probe
    while read -r name probe; do
        eval "$probe" > /dev/null 2>&1 || printf '%s\n' "$name"
    done < <(packages "$1")
}

apt_install() {
    local -a as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    local -a apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
    # A package list that is old or absent is the usual reason for a first failure.
    "${apt[@]}" install --no-install-recommends "$@" < /dev/null ||
        { "${apt[@]}" update < /dev/null && "${apt[@]}" install --no-install-recommends "$@" < /dev/null; }
}

may_install() {
    have apt-get && { [[ $(id -u) == 0 ]] || { have sudo && sudo -n true 2> /dev/null; }; }
}

# need_packages build|test: all that the named work needs, or an end with the names of what lacks.
need_packages() {
    local -a lacking
    mapfile -t lacking < <(missing_packages "$1")
    ((${#lacking[@]})) || return 0
    if may_install; then
        say "Installing system packages: ${lacking[*]}"
        quietly "system packages" apt_install "${lacking[@]}" || true
        mapfile -t lacking < <(missing_packages "$1")
        ((${#lacking[@]})) || return 0
        # The Python environment has a second way to be made (python.sh).
        [[ ${lacking[*]} != python3-venv ]] || return 0
        die "these packages could not be installed: ${lacking[*]}"
    fi
    die "these packages are missing, and this user may not install them; as root: apt-get install ${lacking[*]}"
}
