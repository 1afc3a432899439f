# ./dev demo: everything that it needs, a first result early, then stock and samebits side by side.
# shellcheck shell=bash

PLUGIN=$RELEASE/lib/libggml-samebits.so

# Our matmul beside a stock library, before anything long is built.
first_result() {
    python_packages openblas &
    build_core
    wait $! # fails as the packages did
    say "A first result: our matrix product beside OpenBLAS's. Which rows move, among other rows and with other threads?"
    "$RELEASE/bin/samebits" verify --quick --op matmul --stock "$(openblas_path)" >&2
    say "And how fast are both?"
    "$RELEASE/bin/samebits" bench matmul --quick --stock "$(openblas_path)" >&2
}

cmd_demo() {
    local start=$SECONDS status=0
    need_packages build
    first_result
    need_llama llama-server
    need_model
    build_release
    build_samebits_llama
    python3 "$ROOT/tools/demo/demo.py" --samebits-llama "$RELEASE/bin/samebits-llama" --plugin "$PLUGIN" \
        --llama-server "$LLAMA_BIN/llama-server" --model "$MODEL" --output "$BUILD/demo" "$@" || status=$?
    say "The demo took $((SECONDS - start)) s."
    return $status
}
