# Shared by ./dev and everything under tools/: where things are, and how progress is shown.
# shellcheck shell=bash

BUILD=$ROOT/build
LOGS=$BUILD/logs
JOBS=${JOBS:-$(nproc)}
mkdir -p "$LOGS"

say() { printf '%s\n' "$*" >&2; }

die() {
    say "dev: $*"
    exit 2
}

have() { command -v "$1" > /dev/null 2>&1; }

# Passes lines on to a log and shows how far a build is: one line that is rewritten on a terminal, else one line in ten
# percent. Reads make's "[ 42%] Building ...".
show_progress() {
    local log=$1 title=$2 line percent shown=-1
    while IFS= read -r line; do
        printf '%s\n' "$line" >> "$log"
        [[ $line =~ ^\[\ *([0-9]+)%\] ]] || continue
        percent=${BASH_REMATCH[1]}
        if [[ -t 2 ]]; then
            printf '\r\033[K  %s %3d%%' "$title" "$percent" >&2
        elif ((percent / 10 != shown)); then
            shown=$((percent / 10))
            printf '  %s %3d%%\n' "$title" "$percent" >&2
        fi
    done
    if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
}

# quietly TITLE COMMAND...: runs a command with its output in build/logs/TITLE.log; shows the end of it if it fails.
quietly() {
    local title=$1 start=$SECONDS log
    shift
    log=$LOGS/${title//[^a-zA-Z0-9.-]/-}.log
    : > "$log"
    if ! "$@" 2>&1 | show_progress "$log" "$title"; then
        say "dev: $title failed (all of it in $log):"
        tail -n 40 "$log" >&2
        return 1
    fi
    say "  $title: done in $((SECONDS - start)) s"
}
