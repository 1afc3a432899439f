#!/usr/bin/env python3
"""Runs an unmodified llama.cpp with and without samebits, and tells what moved.

Plays the scenarios of samebits-llama, asks llama-server the same prompt alone and among others, and measures the
speed of both. Exit status: 0 stock moved and samebits did not, 1 otherwise, 2 something could not run.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

from llama_server import Trouble, running_server, stock_environment

SCHEMA_VERSION = 1


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samebits-llama", required=True)
    parser.add_argument("--llama-server", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path, help="folder of the picture and the logs")
    parser.add_argument("--json", action="store_true")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--short", action="store_true", help="fewer and shorter runs")
    length.add_argument("--full", action="store_true", help="every scenario")
    return parser.parse_args()


def run_helper(arguments, *options):
    """samebits-llama's JSON. It exits with 1 if bits moved, which is for judge() to say."""
    command = [arguments.samebits_llama, *options, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=stock_environment(), text=True)
    if done.returncode not in (0, 1):
        raise Trouble(f"`{' '.join(command)}' ended with status {done.returncode}")
    return json.loads(done.stdout)


def run_scenarios(arguments, picture):
    options = ["--plugin", arguments.plugin, "--plot", str(picture)]
    if not arguments.full:
        options += ["--short", "--prompts", "1"]
    if not arguments.full and not arguments.short:
        options += ["--tokens", "200"]
    return run_helper(arguments, arguments.model, *options)


def check_server(arguments, plugin, name):
    log = arguments.output / f"server-{name}.log"
    with running_server(arguments.llama_server, arguments.model, plugin, log) as url:
        return run_helper(arguments, "--check-server", url, *(["--tries", "3"] if arguments.short else []))


def run_bench(arguments):
    options = ["--bench"] + ([] if arguments.full else ["--short"])
    return run_helper(arguments, arguments.model, *options, "--plugin", arguments.plugin)


def largest_change(scenarios, engine):
    changes = [row[engine]["max_change"] for row in scenarios if row[engine]["status"] == "compared"]
    return max((change for change in changes if change is not None), default=0)


def ratio(bench, measure):
    """The smaller one of 1 and 2 threads."""
    return min(row["ratio"] for row in bench["measures"] if row["name"].startswith(measure))


def summarise(scenarios, servers, bench, picture):
    def engine(name):
        return {
            "scenarios": scenarios[name]["scenarios"],
            "moved_scenarios": scenarios[name]["moved_scenarios"],
            "moved_logits": scenarios[name]["moved_logits"],
            "largest_change": largest_change(scenarios["scenarios"], name),
            "failed": scenarios[name]["failed"],
        }

    return {
        "schema_version": SCHEMA_VERSION,
        "model": scenarios["model"],
        "stock": engine("stock"),
        "samebits": engine("samebits"),
        "server": {
            "tries": servers["stock"]["beside_tries"],
            "stock_moved": servers["stock"]["moved"],
            "samebits_moved": servers["samebits"]["moved"],
        },
        "speed": {
            "pp512_ratio": ratio(bench, "pp512"),
            "tg64_ratio": ratio(bench, "tg64"),
            "measures": bench["measures"],
        },
        "orders": sorted(set(re.findall(r"\b[a-z]+\d*-\d+\b(?!\.)", scenarios["samebits"]["banner"]))),
        "picture": str(picture),
    }


def verdict(summary):
    """Why the demo failed, line by line; empty if stock moved and samebits did not."""
    faults = []
    if summary["samebits"]["moved_scenarios"] or summary["samebits"]["moved_logits"]:
        faults.append("samebits moved logits in the scenarios")
    if summary["samebits"]["failed"] or summary["stock"]["failed"]:
        faults.append("scenarios failed to run")
    if summary["server"]["samebits_moved"]:
        faults.append("samebits moved log-probabilities in llama-server")
    if not summary["stock"]["moved_scenarios"]:
        faults.append("stock moved in no scenario, so they show nothing")
    if not summary["server"]["stock_moved"]:
        faults.append("stock did not move in llama-server, so its test shows nothing")
    return faults


def cell(outcome):
    if outcome["status"] != "compared":
        return "" if outcome["status"] == "base" else outcome["status"]
    text = f"{outcome['moved']:>9,}"
    if outcome["moved"] and outcome["max_change"] is not None:
        text += f"   {outcome['max_change']:.2f}"
    if outcome.get("texts_moved"):
        text += f"   {outcome['texts_moved']}/{outcome['texts']} texts"
    return text


def print_scenarios(result, summary):
    width = max(len(row["name"]) for row in result["scenarios"]) + 2
    print(f"\n{result['model']}: one prompt of {result['tokens']} tokens, {result['n_vocab']:,} logits of its last token.")
    print("A logit moved if any of its bits did; beside it the largest change.\n")
    print(f"{'compared with the whole prompt at once':<{width}}{'stock llama.cpp':<28}with samebits")
    for row in result["scenarios"]:
        if row["stock"]["status"] != "base":
            print(f"{row['name']:<{width}}{cell(row['stock']):<28}{cell(row['samebits'])}".rstrip())
    totals = [f"{summary[e]['moved_scenarios']} of {summary[e]['scenarios']} moved" for e in ("stock", "samebits")]
    print(f"{'scenarios':<{width}}{totals[0]:<28}{totals[1]}")


def print_servers(servers):
    def moved(row):
        return f"moved {row['moved']} of {row['tries']}" + (f"   {row['max_change']:.2g}" if row["moved"] else "")

    print(f"\nllama-server as it starts by default ({servers['stock']['slots']} slots, unified KV cache), one prompt:")
    for stock, ours in zip(servers["stock"]["rows"], servers["samebits"]["rows"]):
        print(f"{stock['name']:<40}{moved(stock):<28}{moved(ours)}")


def print_speed(bench):
    print(f"\n{'tokens per second':<40}{'stock':>8}{'samebits':>12}{'ratio':>8}   stock's best setting")
    for row in bench["measures"]:
        kind, tokens, threads = re.fullmatch(r"([a-z]+)(\d+)_(\d+)", row["name"]).groups()
        title = {"pp": "reading a prompt of", "tg": "writing"}[kind] + f" {tokens} tokens, {threads} thread"
        title += "s" if threads != "1" else ""
        print(f"{title:<40}{row['stock']:>8.1f}{row['samebits']:>12.1f}{row['ratio']:>7.2f}x   {row['best_of_stock']}")


def print_advice(arguments, summary, faults):
    print(f"\nPicture: {summary['picture']}")
    if faults:
        print("NOT SHOWN: " + "; ".join(faults) + ".")
        return
    print("Shown: stock moved, samebits did not.")
    print("To use it with your own llama-server (a release, or built with GGML_BACKEND_DL=ON), start it as\n"
          f"  GGML_BACKEND_PATH={arguments.plugin} llama-server -m MODEL.gguf\n"
          "and look for the line that begins with `samebits' in its log.")


def main():
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    picture = arguments.output / "moved.svg"
    say("The scenarios, with stock and with samebits:")
    scenarios = run_scenarios(arguments, picture)
    say("The server, stock:")
    servers = {"stock": check_server(arguments, None, "stock")}
    say("The server, with samebits:")
    servers["samebits"] = check_server(arguments, arguments.plugin, "samebits")
    say("The speed of both:")
    bench = run_bench(arguments)
    summary = summarise(scenarios, servers, bench, picture)
    faults = verdict(summary)
    if arguments.json:
        print(json.dumps(summary, indent=2))
    else:
        print_scenarios(scenarios, summary)
        print_servers(servers)
        print_speed(bench)
        print_advice(arguments, summary, faults)
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Trouble as trouble:
        say(f"demo: {trouble}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
