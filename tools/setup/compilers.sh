# ./dev compilers: the golden fingerprints under every compiler that is here, optimised a little and a lot.
# shellcheck shell=bash

# GCC 12 and Clang 14 are the oldest that are supported.
compilers() {
    local name
    for name in gcc-{12..19} clang-{14..25}; do
        if have "$name"; then printf '%s\n' "$name"; fi
    done
}

# fingerprints COMPILER FLAG...: builds the library and the command, and compares the fingerprints at every level.
fingerprints() {
    local compiler=$1 folder
    shift
    folder=$BUILD/compilers/$compiler$(printf '%s' "$@")
    cmake -S "$ROOT" -B "$folder" -DCMAKE_BUILD_TYPE=None -DBUILD_TESTING=OFF -DCMAKE_C_COMPILER="$compiler" \
        -DCMAKE_C_FLAGS="$*" -DSAMEBITS_WERROR=ON
    cmake --build "$folder" -j "$JOBS" --target samebits_cli
    local level
    for level in scalar avx2 avx512 amx; do
        if has_level "$level" "$folder/bin/samebits"; then "$folder/bin/samebits" fingerprint --cpu "$level" --check; fi
    done
}

cmd_compilers() {
    need_packages test
    local compiler optimisation
    local -a found
    mapfile -t found < <(compilers)
    for compiler in "${found[@]}"; do
        for optimisation in -O0 -O1 -O2 -O3 "-O3 -flto"; do
            # shellcheck disable=SC2086
            step "fingerprints, $compiler $optimisation" fingerprints "$compiler" $optimisation || true
        done
    done
    printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
    ((FAILED == 0))
}
