"""The command line: `python -m samebits` runs the samebits command that the package brings."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    command = pathlib.Path(__file__).parent / "bin" / "samebits"
    if not command.exists():
        sys.exit(f"samebits: {command} is missing; install the package again")
    os.execv(command, ["samebits", *sys.argv[1:]])


if __name__ == "__main__":
    main()
