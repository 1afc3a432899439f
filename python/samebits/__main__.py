"""The command line: `verify` over a checkpoint and a part of `info` here, all else by the samebits command."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    from . import _info, verify

    if verify.is_ours(sys.argv[1:]):
        sys.exit(verify.main(sys.argv[1:]))
    command = pathlib.Path(__file__).parent / "bin" / "samebits"
    if not command.exists():
        sys.exit(f"samebits: {command} is missing; install the package again")
    if _info.is_ours(sys.argv[1:]):
        sys.exit(_info.main(command, sys.argv[1:]))
    os.execv(command, ["samebits", *sys.argv[1:]])


if __name__ == "__main__":
    main()
