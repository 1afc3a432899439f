# The private Python environment under build/, and packages fetched into it at pinned versions and hashes.
# shellcheck shell=bash

VENV=$BUILD/venv

# Sets PIP to the command that installs into the private environment.
need_python() {
    if [[ -x $VENV/bin/pip ]] && "$VENV/bin/pip" --version > /dev/null 2>&1; then
        PIP=("$VENV/bin/pip")
    elif python3 -c 'import venv, ensurepip' 2> /dev/null; then
        rm -rf "$VENV"
        quietly "Python environment" python3 -m venv "$VENV"
        PIP=("$VENV/bin/pip")
    elif python3 -m pip --version > /dev/null 2>&1; then
        # Without ensurepip an environment comes without pip; the system's one can install into it.
        rm -rf "$VENV"
        quietly "Python environment" python3 -m venv --without-pip "$VENV"
        PIP=(python3 -m pip --python "$VENV/bin/python")
    else
        die "Python's venv is missing; as root: apt-get install python3-venv"
    fi
    PIP+=(--disable-pip-version-check --no-input)
}

# python_packages NAME: what requirements/NAME.txt pins, hashes checked by pip.
python_packages() {
    local stamp=$VENV/.$1.sha256 list=$ROOT/tools/setup/requirements/$1.txt
    need_python
    if [[ -f $stamp ]] && (cd "$ROOT" && sha256sum --check --status "$stamp"); then return 0; fi
    quietly "Python packages $1" "${PIP[@]}" install --no-deps --only-binary :all: --require-hashes -r "$list"
    (cd "$ROOT" && sha256sum "tools/setup/requirements/$1.txt") > "$stamp"
}

# python_large_packages NAME SECONDS: the same for packages of gigabytes, fetched in so many seconds or not at all. The files
# stay in build/downloads, so that an environment made anew, or a machine that keeps the folder, does not fetch them again.
python_large_packages() {
    local stamp=$VENV/.$1.sha256 list=$ROOT/tools/setup/requirements/$1.txt
    local -a pinned=(--no-deps --only-binary :all: --require-hashes -r "$list")
    need_python || return 1
    if [[ -f $stamp ]] && (cd "$ROOT" && sha256sum --check --status "$stamp"); then return 0; fi
    quietly "download $1" timeout "$2" "${PIP[@]}" download -d "$BUILD/downloads" "${pinned[@]}" || return 1
    quietly "Python packages $1" "${PIP[@]}" install --no-index --find-links "$BUILD/downloads" "${pinned[@]}" || return 1
    (cd "$ROOT" && sha256sum "tools/setup/requirements/$1.txt") > "$stamp"
}

# The path of the OpenBLAS that `samebits verify` and `samebits bench` stand beside.
openblas_path() {
    "$VENV/bin/python" -c 'import scipy_openblas32 as o; print(o.get_lib_dir() + "/" + o.get_library(fullname=True))'
}
