#!/usr/bin/env python3
"""Exit codes, messages and JSON keys of the samebits command. Usage: test_cli.py SAMEBITS"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
failed = 0


def run(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def expect(what, holds, done=None):
    global failed
    print(("ok      " if holds else "FAILED  ") + what)
    if not holds:
        failed += 1
        if done:
            print(done.returncode, done.stdout[-2000:], done.stderr[-2000:], sep="\n")


def expect_run(args, code, *words):
    """The exit code, and words that the output or the message must hold."""
    done = run(*args)
    text = done.stdout + done.stderr
    expect(f"samebits {' '.join(args)}: exit {code}", done.returncode == code and all(w in text for w in words), done)
    return done


def usage():
    expect_run([], 2, "Usage")
    expect_run(["--help"], 0, "verify", "fingerprint", "bench", "info")
    expect_run(["--version"], 0, "samebits 0.")
    expect_run(["verfy"], 2, "no command 'verfy'", "--help")
    for command in ["verify", "fingerprint", "bench", "info"]:
        expect_run([command, "--help"], 0, "Examples", "Exit status")
        expect_run([command, "--no-such-option"], 2)
        expect_run([command, "surplus"], 2, "surplus")
    expect_run(["verify", "--op", "matmull"], 2, "no op 'matmull'", "linear_prepared", "attention")
    expect_run(["verify", "--seed", "x"], 2, "--seed wants a number")
    expect_run(["verify", "--cpu", "sse2"], 2, "scalar, avx2, avx512, amx or neon")
    for cases in ["0", "-4", "many"]:
        expect_run(["verify", "--fuzz", cases], 2, "--fuzz wants")
    expect_run(["verify", "--op", "softmax", "--form", "q4_k"], 2, "no form 'q4_k'")
    expect_run(["verify", "--stock", "/no/such.so"], 2, "/no/such.so")
    expect_run(["fingerprint", "--cpu", "mmx"], 2, "scalar, avx2")
    expect_run(["fingerprint", "--check=/no/such/file"], 2, "/no/such/file")
    expect_run(["bench", "--threads", "0"], 2, "--threads wants")
    expect_run(["bench", "--ggml", "/no/such/folder"], 2, "libggml-base.so")
    expect_run(["info", "--ggml", "/no/such/folder"], 2, "libggml-cpu")


def limit():
    for value, code, word in [("8", 0, "samebits"), ("unlimited", 0, "samebits"), ("-1", 2, "SAMEBITS_LIMIT"),
                              ("many", 2, "want a number"), ("", 2, "SAMEBITS_LIMIT"), ("9" * 30, 2, "SAMEBITS_LIMIT")]:
        done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True,
                              env=os.environ | {"SAMEBITS_LIMIT": value})
        expect(f"SAMEBITS_LIMIT={value[:12]}: exit {code}", done.returncode == code and word in done.stdout + done.stderr, done)


def verify():
    done = expect_run(["verify", "--op", "rms_norm", "--seed", "7", "--json"], 0)
    found = json.loads(done.stdout)
    expect("verify --json: keys", {"schema", "seed", "cases", "differing", "controls", "ops", "levels"} <= found.keys())
    expect("verify --json: cases, none differing", found["cases"] > 100 and found["differing"] == 0)
    expect("verify --json: the seed comes back", found["seed"] == "7")
    expect("verify --json: no faults without --self-test", "faults" not in found)
    naive = [c for c in found["controls"] if c["library"] == "built-in naive"]
    expect("verify: the built-in control moves", len(naive) == 1 and naive[0]["differing"] > 0 and naive[0]["op"])
    expect("verify: both oracles", all({"content", "shape"} <= op["checks"].keys() for op in found["ops"]))
    again = json.loads(run("verify", "--op", "rms_norm", "--seed", "7", "--json").stdout)
    expect("verify: a seed gives the same run", again["cases"] == found["cases"])
    done = expect_run(["verify", "--op", "rms_norm", "--self-test", "--json"], 0)
    faults = json.loads(done.stdout)["faults"]
    expect("verify --self-test: all caught", faults["planted"] == faults["caught"] >= 5)
    done = expect_run(["verify", "--accuracy", "--op", "softmax", "--json"], 0)
    lines = json.loads(done.stdout)["accuracy"]
    f32 = [line for line in lines if line["form"] == "f32"]
    expect("verify --accuracy: softmax f32 is near", f32 and f32[0]["rms"] < 1e-6)


def fuzz():
    again = []
    for _ in range(2):
        done = expect_run(["verify", "--fuzz", "40", "--seed", "3", "--op", "softmax", "--json"], 0)
        found = json.loads(done.stdout)
        again.append(found)
        expect("verify --fuzz: 40 cases of 3 forms", [f["cases"] for f in found["fuzz"]] == [40] * 3)
        expect("verify --fuzz: none differs", found["cases"] == 120 and found["differing"] == 0)
        expect("verify --fuzz: the control is seen", found["control"] > 0)
    expect("verify --fuzz: a seed gives the same cases", again[0] == again[1])


def fingerprint():
    levels = json.loads(run("info", "--json").stdout)["levels"]
    printed = run("fingerprint").stdout
    for level in levels:
        expect_run(["fingerprint", "--cpu", level, "--check"], 0, "same bits")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "golden.txt"
        file.write_text(printed)
        expect_run(["fingerprint", f"--check={file}"], 0, "same bits")
        lines = printed.splitlines()
        lines[1] = lines[1][:-1] + ("0" if lines[1][-1] != "0" else "1")
        file.write_text("\n".join(lines))
        expect_run(["fingerprint", f"--check={file}"], 1, "moved")
        found = json.loads(run("fingerprint", f"--check={file}", "--json").stdout)
        expect("fingerprint --json: one moved", found["moved"] == 1 and sum(f["moved"] for f in found["fingerprints"]) == 1)
        file.write_text("\n".join(printed.splitlines()[:-1]))
        expect_run(["fingerprint", f"--check={file}"], 1, "is not in")
        file.write_text(printed + "no_such_op f32 portable-1 0000000000000000\n")
        expect_run(["fingerprint", f"--check={file}"], 1, "not in this library")
        file.write_text("one two\n")
        expect_run(["fingerprint", f"--check={file}"], 2, "op form order hash")
        file.write_text("")
        expect_run(["fingerprint", f"--check={file}"], 2, "no entries")


def bench():
    with tempfile.TemporaryDirectory() as folder:
        done = expect_run(["bench", "rows", "--quick", "--json"], 0)
        found = json.loads(done.stdout)
        keys = {"op", "form", "order", "shape", "seconds", "gflops", "gbytes", "read_gbytes", "peers"}
        expect("bench --json: keys", found["schema"] == 1 and all(keys <= line.keys() for line in found["lines"]))
        expect_run(["bench", "rows", "--quick", f"--plot={folder}/x.svg"], 2, "nothing to draw")


usage()
limit()
verify()
fuzz()
fingerprint()
bench()
print(f"{failed} failed")
sys.exit(1 if failed else 0)
