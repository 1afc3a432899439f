# ./dev check and ./dev fmt.
# shellcheck shell=bash

c_sources() { git ls-files -z -- '*.c' '*.h' '*.inc' '*.cpp'; }

# clang-format, ruff and shellcheck at one version each: others want other things.
need_checkers() {
    [[ $(uname -m) == x86_64 ]] || skip "the pinned clang-format, ruff and shellcheck are those of x86-64"
    python_packages check
}

cmd_fmt() {
    need_checkers
    c_sources | xargs -0 "$VENV/bin/clang-format" -i
    "$VENV/bin/ruff" format -q python
}

cmd_check() {
    local status=0
    need_checkers
    c_sources | xargs -0 "$VENV/bin/clang-format" --dry-run -Werror || status=1
    tools/check_layers || status=1
    "$VENV/bin/ruff" check -q python || status=1
    "$VENV/bin/ruff" format -q --check python || status=1
    "$VENV/bin/shellcheck" dev .ci/run tools/setup/*.sh || status=1
    return $status
}
