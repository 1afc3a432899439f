# The Python package: its wheel, and its tests against the wheel as installed.
# shellcheck shell=bash

build_wheel() {
    python_packages python
    rm -rf "$BUILD/wheel"
    # By the name that the release calls the compiler: where ccache is, the library is then compiled once for both.
    CC=${CC:-cc} CMAKE_BUILD_PARALLEL_LEVEL=$JOBS quietly "build wheel" "${PIP[@]}" wheel --no-deps --no-build-isolation \
        -C "build-dir=$BUILD/python" -w "$BUILD/wheel/local" "$ROOT"
    # Machines without this one's OpenMP runtime and cJSON take the wheel too: auditwheel brings them along, or fails.
    PATH=$VENV/bin:$PATH quietly "auditwheel" "$VENV/bin/python" -m auditwheel repair --strip -w "$BUILD/wheel" \
        "$BUILD"/wheel/local/*.whl
    rm -r "$BUILD/wheel/local"
}

cmd_wheel() {
    need_packages build
    build_wheel
    say "Built: $(echo "$BUILD"/wheel/*.whl)"
}

# PyTorch and transformers. Its x86-64 wheel on the package index is that with CUDA, which does not load without CUDA's
# libraries: 2 GB to fetch, 5 GB to hold.
get_torch() {
    [[ $(uname -m) == x86_64 ]] || skip "the pinned packages are those of x86-64"
    python_packages python
    # On a slow line its download must not take the time of all other tests.
    python_large_packages torch 420 || skip "its packages of 2 GB could not be had within 7 minutes"
}

# The types of samebits.torch, which are known beside PyTorch's alone.
test_types() {
    python_packages mypy
    "$VENV/bin/python" -c "import torch" || skip "PyTorch is not installed"
    cd "$ROOT" && "$VENV/bin/python" -m mypy -p samebits.torch
}

test_wheel() {
    python_packages python
    quietly "install wheel" "${PIP[@]}" install --no-deps --force-reinstall "$BUILD"/wheel/*.whl
    "$VENV/bin/python" -m pytest -q "$ROOT/python/tests" --ignore-glob "*/test_mlx*.py"
}

test_mlx() {
    python_packages python
    python_packages mlx
    quietly "install wheel" "${PIP[@]}" install --no-deps --force-reinstall "$BUILD"/wheel/*.whl
    quietly "build the MLX extension" "$VENV/bin/python" -m samebits.build_mlx
    "$VENV/bin/python" -m pytest -q "$ROOT"/python/tests/test_mlx*.py
}
