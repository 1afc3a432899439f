# ./dev check and ./dev fmt.
# shellcheck shell=bash

c_sources() { git ls-files -z -- '*.c' '*.h' '*.inc' '*.cpp'; }

cmd_fmt() { c_sources | xargs -0 clang-format -i; }

cmd_check() {
    local status=0
    c_sources | xargs -0 clang-format --dry-run -Werror || status=1
    tools/check_layers || status=1
    if have shellcheck; then
        shellcheck dev .ci/run tools/setup/*.sh || status=1
    else
        say "shellcheck is not installed: the scripts were not checked"
    fi
    return $status
}
