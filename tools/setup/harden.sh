# ./dev harden: what takes longer than `./dev test` may: the fuzz targets for a while, random calls of every op, MSan,
# valgrind.
# shellcheck shell=bash

CORPUS=$ROOT/tests/fuzz/corpus

# fuzz_target TARGET SECONDS: from the committed inputs; new ones are kept under build/corpus.
fuzz_target() {
    mkdir -p "$BUILD/corpus/$1"
    "$BUILD/asan/bin/samebits_fuzz_$1" -max_total_time="$2" -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$BUILD/corpus/" "$BUILD/corpus/$1" "$CORPUS/$1"
}

# test_fuzz SECONDS: a turn of each target.
test_fuzz() {
    local target
    for target in arguments blocks; do
        step "fuzz: $target, $1 s" fuzz_target "$target" "$1" || true
    done
}

# fuzz_ops CASES: random calls of every op at every level, against the order in plain C.
fuzz_ops() {
    build_core
    # Idle threads sleep: there are as many processes as cores, and their calls have threads of their own.
    OMP_WAIT_POLICY=passive "$ROOT/tools/fuzz_ops" "$RELEASE/bin/samebits" --cases "$1" --jobs "$JOBS"
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

# harden [SECONDS [CASES]]: each fuzz target takes that long (default: an hour), each op gets so many calls (default: a
# million, divided over its forms).
cmd_harden() {
    local seconds=${1:-3600} cases=${2:-1000000} title
    need_packages test
    if step "build: asan, ubsan, fuzz targets" build asan; then test_fuzz "$seconds"; fi
    title="verify --fuzz: every op, $cases calls"
    ! step "$title" fuzz_ops "$cases" || cat "$(step_log "$title")"
    step "MSan: api" msan_api || true
    if have valgrind; then
        step "valgrind: api" valgrind_api || true
    else
        step "valgrind: api" skip "valgrind is not installed" || true
    fi
    printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
    ((FAILED == 0))
}
