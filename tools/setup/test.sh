# ./dev test: builds, ctest suites and programs as named, timed steps, counted together.
# shellcheck shell=bash

PASSED=0 FAILED=0 SKIPPED=0
QUICK=0 # 1: without the packages of gigabytes
SKIP_STATUS=77

# What a step said.
step_log() { printf '%s/test-%s.log\n' "$LOGS" "${1//[^a-zA-Z0-9.-]/-}"; }

# step TITLE COMMAND...: one test. Status 77 skips; its last line then is the reason. The command runs in a ./dev of its
# own, since bash ignores `set -e` inside a function whose status is looked at.
step() {
    local title=$1 start=$SECONDS status=0 log
    log=$(step_log "$title")
    shift
    printf '%s  %s ...\n' "$(date +%T)" "$title"
    "$ROOT/dev" call "$@" > "$log" 2>&1 < /dev/null || status=$?
    case $status in
        0)
            PASSED=$((PASSED + 1))
            printf '%s  %s: passed, %d s\n' "$(date +%T)" "$title" $((SECONDS - start))
            ;;
        "$SKIP_STATUS")
            SKIPPED=$((SKIPPED + 1))
            printf '%s  %s: SKIPPED: %s\n' "$(date +%T)" "$title" "$(tail -n 1 "$log")"
            return 1
            ;;
        *)
            FAILED=$((FAILED + 1))
            tail -n 60 "$log"
            printf '%s  %s: FAILED with status %d, %d s; all of it in %s\n' "$(date +%T)" "$title" "$status" \
                $((SECONDS - start)) "$log"
            return 1
            ;;
    esac
}

skip() {
    printf '%s\n' "$*"
    return $SKIP_STATUS
}

# suite PRESET [CTEST OPTION...]: the ctest entries of a build, each counted.
suite() {
    local preset=$1 report=$LOGS/ctest-$1.xml total failures disabled skipped
    shift
    rm -f "$report"
    ctest --test-dir "$BUILD/$preset" -j "$JOBS" --output-on-failure --timeout 900 \
        --output-junit "$report" "$@" < /dev/null || true
    read -r total failures disabled skipped < <(junit_counts "$report") || true
    if [[ -z ${skipped:-} ]]; then
        printf 'ctest gave no report for %s\n' "$preset"
        FAILED=$((FAILED + 1))
        return
    fi
    FAILED=$((FAILED + failures))
    SKIPPED=$((SKIPPED + skipped + disabled))
    PASSED=$((PASSED + total - failures - skipped - disabled))
}

# tests, failures, disabled and skipped of ctest's report.
junit_counts() {
    tr '\n' ' ' < "$1" | sed -n \
        's/.*<testsuite [^>]*tests="\([0-9]*\)"[^>]*failures="\([0-9]*\)"[^>]*disabled="\([0-9]*\)"[^>]*skipped="\([0-9]*\)".*/\1 \2 \3 \4/p'
}

# has_level LEVEL [SAMEBITS]: whether this machine runs it; asked of the command, since a CPU may report AMX and trap.
has_level() { [[ $("${2:-$RELEASE/bin/samebits}" info) == *"here:"*" $1"[\ \)]* ]]; }

test_kernels() {
    suite release
    if has_level amx; then
        step "build: AVX-512 emulated" skip "this machine has AVX-512 and AMX: the release suite ran their rows" || true
    elif step "build: AVX-512 emulated" build emu512; then
        suite emu512 -E '^(tools|install|headers|check_.*|refuses_.*)$' # as in the release
    fi
}

# The core under sanitizers: what runs its code, without the sweep over all inputs of the math functions.
test_sanitizers() {
    if step "build: asan, ubsan, fuzz targets" build asan; then
        LSAN_OPTIONS=suppressions=$ROOT/tests/lsan.supp suite asan -R '^(check$|api_|invariance_)'
        test_fuzz 8
    fi
    # GCC's OpenMP synchronises in ways that TSan cannot see, so the races are looked for among threads of the tests'
    # own: a host's pool, and calls that share a context.
    if step "build: tsan" build tsan; then
        OMP_THREAD_LIMIT=1 suite tsan -R '^(api_|invariance_(hooks|shared|cancelled)$)'
    fi
}

# The other compiler; `./dev compilers` tries all that are here, with every optimisation.
test_compiler() { step "fingerprints, Clang" fingerprints clang -O1 -DSB_NO_UNROLL || true; }

# The command against every CPU level that this machine has.
test_command() {
    local samebits=$RELEASE/bin/samebits
    python_packages openblas
    step "samebits verify" "$samebits" verify --quick --stock "$(openblas_path)" || true
    step "samebits verify --self-test" "$samebits" verify --quick --self-test || true
    local level
    for level in scalar avx2 avx512 amx; do
        if ! has_level "$level"; then
            step "samebits fingerprint, $level" skip "this machine has no $level" || true
        else
            step "samebits fingerprint, $level" "$samebits" fingerprint --cpu "$level" --check || true
        fi
    done
}

# 64-bit Arm under qemu-user, which takes minutes for what takes this machine seconds: a part of the cases, with a CPU
# that has every extension and one that has none; all fingerprints.
get_aarch64() {
    local why
    why=$(need_aarch64 2>&1) || skip "${why##*$'\n'}"
}

on_aarch64() {
    local cpu=$1 program=$2
    shift 2
    qemu-aarch64 -cpu "$cpu" -L /usr/aarch64-linux-gnu "$BUILD/aarch64/bin/$program" "$@"
}

test_aarch64() {
    step "aarch64: compiler, qemu, libraries" get_aarch64 || return 0
    step "build: aarch64" build_aarch64 samebits_cli samebits_check samebits_math || return 0
    step "aarch64: kernels" on_aarch64 max samebits_check --one-in 20 || true
    step "aarch64: kernels without dot products" on_aarch64 cortex-a53 samebits_check --one-in 40 || true
    step "aarch64: math" on_aarch64 max samebits_math 130003 || true
    step "aarch64: fingerprint, scalar" on_aarch64 max samebits fingerprint --cpu scalar --check || true
    step "aarch64: fingerprint, neon" on_aarch64 max samebits fingerprint --cpu neon --check || true
}

# load_from_python GGML PLUGIN OTHER: samebits.llama_cpp, in the environment that holds the wheel.
load_from_python() {
    SAMEBITS_TEST_GGML=$1 SAMEBITS_TEST_PLUGIN=$2 SAMEBITS_TEST_OTHER_PLUGIN=$3 \
        "$VENV/bin/python" -m pytest -q "$ROOT/python/tests/test_llama_cpp.py"
}

# every_door GGML PLUGIN: the C library, NumPy, PyTorch, MLX and the plugin, as far as they are there.
every_door() {
    SAMEBITS_TEST_GGML=$1 SAMEBITS_TEST_PLUGIN=$2 "$VENV/bin/python" -m pytest -q -rs "$ROOT/python/tests/test_doors.py"
}

# Each host takes the plugin of its own backend API and refuses the other's.
test_plugin_versions() {
    local load=$ROOT/tests/plugin/load.py host_2
    step "build: plugin, API 2" build_plugin_api2 || return 0
    host_2=$(api2_packages)/libggml/lib64
    step "plugin, API 3, in a host of API 3" "$load" "$LLAMA_BIN" "$PLUGIN" taken || true
    step "plugin, API 2, in a host of API 2" "$load" "$host_2" "$API2/lib/libggml-samebits.so" taken || true
    step "plugin, API 3, buffers of weights" "$ROOT/tests/plugin/buffer.py" "$LLAMA_BIN" "$PLUGIN" || true
    step "plugin, API 3, strict mode" "$ROOT/tests/plugin/strict.py" "$LLAMA_BIN" "$PLUGIN" || true
    step "plugin, loaded from Python" load_from_python "$LLAMA_BIN" "$PLUGIN" "$API2/lib/libggml-samebits.so" || true
    step "the same bits in every door" every_door "$LLAMA_BIN" "$PLUGIN" || true
    step "plugin, API 2, loaded from Python" load_from_python "$host_2" "$API2/lib/libggml-samebits.so" "$PLUGIN" || true
    step "plugin, API 2, in a host of API 3" "$load" "$LLAMA_BIN" "$API2/lib/libggml-samebits.so" refused || true
    step "plugin, API 3, in a host of API 2" "$load" "$host_2" "$PLUGIN" refused || true
}

# backend_ops ORDER OPS [PARAMS]: ggml's own suite, op by op. All of its attention cases take most of an hour on two
# cores, so that the tests here take a part of them; without PARAMS they all run.
backend_ops() {
    GGML_BACKEND_PATH=$PLUGIN SAMEBITS_ORDER=$1 "$LLAMA_BIN/test-backend-ops" test -b samebits -o "$2" ${3:+-p "$3"}
}

# tiny_model KIND: a model of random weights, its scenarios, and its logits at every CPU level.
tiny_model() {
    local file=$BUILD/models/tiny-$1.gguf
    mkdir -p "${file%/*}"
    "$ROOT/tests/plugin/tiny_model.py" "$1" "$file"
    "$RELEASE/bin/samebits-llama" "$file" --plugin "$PLUGIN" --engine samebits --short --tokens 100
    "$ROOT/tests/plugin/levels.py" "$RELEASE/bin/samebits-llama" "$PLUGIN" "$file"
}

test_plugin() {
    step "build: llama.cpp" need_llama llama-server llama-perplexity test-backend-ops || return 0
    test_plugin_versions
    step "samebits verify --formats" "$RELEASE/bin/samebits" verify --formats --ggml "$LLAMA_BIN" || true
    step "ggml's test-backend-ops, int8-1" backend_ops int8-1 MUL_MAT,SOFT_MAX,RMS_NORM,NORM,GET_ROWS || true
    step "ggml's test-backend-ops, elements" backend_ops int8-1 \
        ADD,SUB,MUL,DIV,SCALE,SILU,GELU,GELU_ERF,GELU_QUICK,RELU,TANH,SIGMOID,EXP,SWIGLU,GEGLU,GEGLU_ERF,GEGLU_QUICK,REGLU,ROPE ||
        true
    step "ggml's test-backend-ops, experts" backend_ops int8-1 MUL_MAT_ID 'n_mats=(4|8),.*n=(1|17|129),k=256,' || true
    step "ggml's test-backend-ops, portable-1" backend_ops portable-1 MUL_MAT || true
    step "ggml's test-backend-ops, attention" backend_ops int8-1 FLASH_ATTN_EXT \
        'hsk=(64|128|256|576).*kv=(113|512),nb=(1|32),.*type_K=(f16|q8_0|q5_1|iq4_nl)' || true
    step "checkpoint" need_model || return 0
    if step "build: samebits-llama" build_samebits_llama; then
        step "a model's logits at every CPU level" "$ROOT/tests/plugin/levels.py" "$RELEASE/bin/samebits-llama" "$PLUGIN" \
            "$MODEL" || true
        step "a mixture of experts" tiny_model moe || true
        step "a sliding window" tiny_model swa || true
    fi
    step "llama-perplexity, and llama-server's embeddings" "$ROOT/tests/plugin/programs.py" "$LLAMA_BIN" "$PLUGIN" "$MODEL" \
        "$ROOT/spec/order.md" || true
}

test_python() {
    step "build: Python wheel" build_wheel || return 0
    if ((QUICK)); then
        step "PyTorch" skip "--quick" || true
        step "Python package" test_wheel || true
        step "Python package, MLX" skip "--quick" || true
    else
        if step "PyTorch" get_torch; then step "types of samebits.torch" test_types || true; fi
        step "Python package" test_wheel || true
        step "Python package, MLX" test_mlx || true
    fi
}

test_library() {
    test_kernels
    test_sanitizers
    test_compiler
    test_package
    test_command
}

test_drop_ins() {
    test_python
    step "documentation" test_site || true
    test_plugin
}

# group_counts GROUP: a group of steps; its counts go to a file.
group_counts() {
    PASSED=0 FAILED=0 SKIPPED=0
    "$1"
    printf '%d %d %d\n' "$PASSED" "$FAILED" "$SKIPPED" > "$LOGS/counts-$1"
}

# at_once GROUP...: groups of steps at the same time, since many a step keeps one core busy or waits for a download.
at_once() {
    local group passed failed skipped
    trap 'kill 0' INT # which the shell's jobs would ignore
    for group; do
        rm -f "$LOGS/counts-$group"
        group_counts "$group" &
    done
    wait
    trap - INT
    for group; do
        if read -r passed failed skipped < "$LOGS/counts-$group"; then
            PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed)) SKIPPED=$((SKIPPED + skipped))
        else
            printf '%s ended before its last step\n' "$group"
            FAILED=$((FAILED + 1))
        fi
    done
}

cmd_test() {
    case ${1:-} in
        '') ;;
        --quick) QUICK=1 ;;
        *) die "test: there is no option '$1'; want --quick, or none" ;;
    esac
    need_packages test
    export OMP_WAIT_POLICY=passive # idle threads sleep: what runs at once has more threads than there are cores
    step "format, layers, scripts" cmd_check || true
    if step "build: release" build_release -DBUILD_TESTING=ON; then
        python_packages openblas # the groups share the Python environment: what both need is there before they part
        at_once test_library test_drop_ins test_aarch64
        step "demo --short" "$ROOT/dev" demo --short || true
    fi
    printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
    ((FAILED == 0))
}
