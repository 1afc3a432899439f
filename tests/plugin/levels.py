#!/usr/bin/env python3
"""One model's logits at every CPU level of this machine: the same hashes; and, as a control, other ones in the other order.

Usage: levels.py SAMEBITS_LLAMA PLUGIN MODEL
Exit status: 0 the hashes are equal and the control's differ, 1 not so, or a run failed.
"""
import json
import os
import subprocess
import sys

SCENARIOS = "ubatch 16"
TOKENS = "8"  # the scalar level takes a second for each


def levels():
    """The machine's own, below the best one that `auto` takes."""
    with open("/proc/cpuinfo", encoding="utf-8") as text:
        flags = set(text.read().split())
    return ["scalar"] + [name for name, flag in (("avx2", "avx2"), ("avx512", "avx512vl")) if flag in flags] + ["auto"]


def hashes(program, plugin, model, **environment):
    """Of each scenario played."""
    command = [program, "--json", "--engine", "samebits", "--tokens", TOKENS, "--scenarios", SCENARIOS,
               "--plugin", plugin, model]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, end="")
        sys.exit(f"levels.py: {environment}: exit status {done.returncode}")
    rows = json.loads(done.stdout)["scenarios"]
    return {row["name"]: row["samebits"].get("hash") for row in rows if row["samebits"]["status"] != "skipped"}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    program, plugin, model = sys.argv[1:]
    found = {level: hashes(program, plugin, model, SAMEBITS_CPU=level) for level in levels()}
    control = hashes(program, plugin, model, SAMEBITS_ORDER="portable-1")
    for level, rows in list(found.items()) + [("control: portable-1", control)]:
        for name, value in rows.items():
            print(f"{level:20} {name:40} {value}")
    first = found["scalar"]
    if not first or None in first.values():
        sys.exit("levels.py: nothing was played")
    moved = [level for level, rows in found.items() if rows != first]
    if moved:
        print(f"MOVED at {', '.join(moved)}")
    if any(control[name] == value for name, value in first.items()):
        print("the control did not move: the test cannot fail")
        moved.append("control")
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
