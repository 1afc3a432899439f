# ./dev harden: what takes longer than `./dev test` may: the fuzz targets for a while, MSan, valgrind.
# shellcheck shell=bash

CORPUS=$ROOT/tests/fuzz/corpus

# fuzz_target TARGET SECONDS: from the committed inputs; new ones are kept under build/corpus.
fuzz_target() {
    mkdir -p "$BUILD/corpus/$1"
    "$BUILD/fuzz/bin/samebits_fuzz_$1" -max_total_time="$2" -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$BUILD/corpus/" "$BUILD/corpus/$1" "$CORPUS/$1"
}

# A short turn of each target, for `./dev test`.
test_fuzz() {
    step "build: fuzz" build fuzz || return 0
    local target
    for target in arguments blocks; do
        step "fuzz: $target" fuzz_target "$target" 8 || true
    done
}

# Without OpenMP, whose library is not instrumented.
msan_api() {
    quietly "configure msan" cmake --preset msan
    quietly "build msan" cmake --build "$BUILD/msan" -j "$JOBS" --target samebits_api
    "$BUILD/msan/bin/samebits_api"
}

valgrind_api() {
    build_release -DBUILD_TESTING=ON
    OMP_NUM_THREADS=2 valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
        "$RELEASE/bin/samebits_api"
}

# harden [SECONDS]: each fuzz target takes that long (default: an hour).
cmd_harden() {
    local seconds=${1:-3600} target
    need_packages test
    if step "build: fuzz" build fuzz; then
        for target in arguments blocks; do
            step "fuzz: $target, $seconds s" fuzz_target "$target" "$seconds" || true
        done
    fi
    step "MSan: api" msan_api || true
    if have valgrind; then
        step "valgrind: api" valgrind_api || true
    else
        step "valgrind: api" skip "valgrind is not installed" || true
    fi
    printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
    ((FAILED == 0))
}
