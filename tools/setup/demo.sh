# ./dev demo.
# shellcheck shell=bash

PLUGIN=$RELEASE/lib/libggml-samebits.so

cmd_demo() { die "not yet"; }
