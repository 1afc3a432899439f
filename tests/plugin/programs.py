#!/usr/bin/env python3
"""llama.cpp's own programs with one model: llama-perplexity's log-probabilities in other batches, and llama-server's
embeddings (four slots) of a text alone and among three others. Stock is the control: it must move.

Usage: programs.py LLAMA_BIN PLUGIN MODEL TEXT_FILE
Exit status: 0 nothing moved with the plugin, and stock did; 1 not so, or a program failed.
"""
import array
import json
import operator
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/demo"))
from llama_server import running_server, stock_environment  # noqa: E402

CHUNKS, CONTEXT = 1, 128
NEEDLE = "The order of arithmetic is written down, so that the sum has one value."
OTHERS = ["A short one.", "Neighbours come and go " * 20, "1 2 3 4 5 6 7 8 9 10 " * 9]


def log_probabilities(binaries, plugin, model, text, *batch):
    """What llama-perplexity writes for --kl-divergence: 16 bits for each token of the vocabulary at each position."""
    environment = stock_environment() | ({"GGML_BACKEND_PATH": plugin} if plugin else {})
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "logits")
        command = [binaries / "llama-perplexity", "-m", model, "-f", text, "-c", str(CONTEXT), "--chunks", str(CHUNKS),
                   "--save-all-logits", file, *batch]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"programs.py: llama-perplexity: exit status {done.returncode}\n{done.stderr}")
        return array.array("H", pathlib.Path(file).read_bytes())


def moved_perplexity(binaries, plugin, model, text):
    one, other = (log_probabilities(binaries, plugin, model, text, *batch)
                  for batch in (["-b", "512", "-ub", "512"], ["-b", str(CONTEXT), "-ub", "48"]))
    if len(one) != len(other):
        sys.exit("programs.py: llama-perplexity wrote files of two sizes")
    return sum(map(operator.ne, one, other)), len(one)


def embed(url, texts):
    request = urllib.request.Request(url + "/v1/embeddings", json.dumps({"input": texts}).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        rows = sorted(json.load(answer)["data"], key=lambda row: row["index"])
    return [row["embedding"] for row in rows]


def moved_embeddings(binaries, plugin, model):
    # Not mean: b11434 splits a batch of unequal texts, and takes the mean over the last part of each alone.
    options = ["--embeddings", "--pooling", "last", "-np", "4", "-c", "2048"]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        with running_server(str(binaries / "llama-server"), model, plugin, log, *options) as url:
            alone = embed(url, [NEEDLE])[0]
            among = [embed(url, OTHERS[:place] + [NEEDLE] + OTHERS[place:])[place] for place in range(4)]
    return sum(row != alone for row in among), len(among)


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    binaries, plugin, model, text = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    holds = True
    for what, find in (("log-probabilities of llama-perplexity", lambda p: moved_perplexity(binaries, p, model, text)),
                       ("embeddings of llama-server", lambda p: moved_embeddings(binaries, p, model))):
        for name, library in (("stock", None), ("samebits", plugin)):
            moved, count = find(library)
            print(f"{what}: {name} moved {moved} of {count}")
            holds &= (moved == 0) == (library is not None)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
