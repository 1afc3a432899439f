"""Compiles samebits.mlx's extension against the MLX that is installed: python -m samebits.build_mlx

It needs a C++20 compiler (CXX, or c++) and the package nanobind, of the version that MLX is built with
(pip install 'samebits[mlx]')."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PACKAGE = Path(__file__).parent
SOURCES = PACKAGE / "mlx" / "extension"
TARGET = PACKAGE / "mlx" / f"_extension{sysconfig.get_config_var('EXT_SUFFIX')}"
OPTIONS = "-std=c++20 -O2 -fPIC -fvisibility=hidden -fno-strict-aliasing -ffp-contract=off -DNDEBUG".split()
#: MLX's types belong to the domain "mlx", which an extension has to share to see them.
DEFINITIONS = ["-DNB_DOMAIN=mlx", "-DNB_COMPACT_ASSERTIONS"]


class BuildError(Exception):
    """What is missing, or what the compiler said."""


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise BuildError(f"the package {package} is not installed: pip install 'samebits[mlx]'")
    folders = [Path(place) for place in spec.submodule_search_locations]
    return next((f for f in folders if (f / "include").is_dir()), folders[0])


def _existing(path: Path, what: str) -> Path:
    if not path.exists():
        raise BuildError(f"{path} is missing: {what}")
    return path


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        raise BuildError(f"{command[0]} does not run ({error}): set CXX to a C++20 compiler") from None
    if done.returncode:
        raise BuildError(f"{shlex.join(command)}\n{done.stdout}")


def build(target: Path = TARGET) -> Path:
    """Compiles the extension into `target`, and returns that. Raises BuildError."""
    mlx, nanobind = _folder("mlx"), _folder("nanobind")
    library = _existing(PACKAGE / "lib" / "libsamebits.so.0", "the installation of samebits is broken")
    libmlx = _existing(mlx / "lib" / "libmlx.so", "only MLX for Linux is supported")
    _existing(PACKAGE / "include" / "samebits" / "samebits.h", "the installation of samebits is broken")
    includes = [sysconfig.get_paths()["include"], nanobind / "include", nanobind / "ext" / "robin_map" / "include"]
    includes += [mlx / "include", PACKAGE / "include"]
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    flags = [*OPTIONS, *DEFINITIONS, *(f"-isystem{folder}" for folder in includes)]
    sources = [*sorted(SOURCES.glob("*.cpp")), nanobind / "src" / "nb_combined.cpp"]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = [f"{folder}/{source.stem}.o" for source in sources]
        commands = [[*compiler, *flags, "-c", str(s), "-o", o] for s, o in zip(sources, objects, strict=True)]
        list(pool.map(_run, commands))
        # Linked beside its place, so that a module that is in use is replaced and never written to.
        made = f"{folder}/{target.name}"
        _run([*compiler, "-shared", *objects, str(library), str(libmlx), "-Wl,-rpath,$ORIGIN/../lib", "-o", made])
        try:
            fresh = target.with_suffix(".new")
            fresh.write_bytes(Path(made).read_bytes())
            fresh.replace(target)
        except OSError as error:
            raise BuildError(f"{target} cannot be written: {error}") from None
    return target


def main() -> int:
    """Builds, and says where the extension is."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("mlx", "nanobind") if _has(name))
    print(f"samebits: compiling the MLX extension ({versions}); this takes a minute", flush=True)
    try:
        print(f"samebits: {build()}")
    except BuildError as error:
        print(f"samebits: {error}", file=sys.stderr)
        return 1
    return 0


def _has(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    raise SystemExit(main())
