"""The checks of tools/ hold on this tree and fail on planted violations."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["include", "src", "cli", "tools"]


class Planted(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for name in FOLDERS:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.root / name)

    def tearDown(self):
        self.folder.cleanup()

    def run_tool(self, tool):
        done = subprocess.run([sys.executable, str(self.root / "tools" / tool), str(self.root)],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def plant(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.is_file() else "") + text)

    def expect(self, tool, path, text, *words):
        before = self.run_tool(tool)[1].splitlines()
        self.plant(path, text)
        code, after = self.run_tool(tool)
        self.assertEqual(code, 1)
        new = "\n".join(line for line in after.splitlines() if line not in before)
        for word in (path, *words):
            self.assertIn(word, new, f"{tool} did not see what was planted in {path}")

    def expect_nothing(self, tool, path, text, *more):
        """What is planted is allowed."""
        before = self.run_tool(tool)[1].splitlines()
        self.plant(path, text)
        for more_path, more_text in zip(more[::2], more[1::2]):
            self.plant(more_path, more_text)
        new = [line for line in self.run_tool(tool)[1].splitlines() if line not in before and "files hold" not in line]
        self.assertEqual(new, [])


class Layers(Planted):
    def test_base_includes_ops(self):
        self.expect("check_layers", "src/base/cpu.c", '#include "ops/tensor.h"\n', "stands to its right")

    def test_formats_include_kernels(self):
        self.expect("check_layers", "src/formats/formats.c", '#include "kernels/matmul/matmul.h"\n')

    def test_kernel_includes_device(self):
        self.expect("check_layers", "src/kernels/matmul/matmul_ref.c", '#include "device/cpu/parallel.h"\n')

    def test_kernel_includes_another_op(self):
        self.plant("src/kernels/planted/planted.h", "int planted;\n")
        self.expect("check_layers", "src/kernels/matmul/matmul_ref.c", '#include "kernels/planted/planted.h"\n',
                    "another op")

    def test_include_behind_spaces(self):
        self.expect("check_layers", "src/base/cpu.c", '  #  include "ops/tensor.h"\n')

    def test_only_checks_include_the_harness(self):
        self.expect("check_layers", "src/kernels/matmul/matmul_ref.c", '#include "check/check.h"\n')

    def test_kernel_reads_environment(self):
        self.expect("check_layers", "src/kernels/matmul/matmul_ref.c", "int f(void) { return getenv(\"X\") != 0; }\n")

    def test_op_reads_environment(self):
        self.expect("check_layers", "src/ops/info.c", "int f(void) { return getenv(\"X\") != 0; }\n")

    def test_kernel_allocates(self):
        self.expect("check_layers", "src/kernels/matmul/matmul_ref.c", "void *f(void) { return malloc(1); }\n")

    def test_kernel_asks_for_the_cpu(self):
        self.expect("check_layers", "src/kernels/matmul/matmul_table.c",
                    'int f(void) { return __builtin_cpu_supports("avx2"); }\n')

    def test_kernel_starts_threads(self):
        self.expect("check_layers", "src/kernels/matmul/matmul_ref.c", "#pragma omp parallel\n", "OpenMP")

    def test_order_calls_libm(self):
        self.expect("check_layers", "src/order/order.h", "static float f(float x) { return expf(x); }\n")

    def test_estimate(self):
        self.expect("check_layers", "src/ops/info.c", "f(_mm256_rsqrt_ps(x));\n")

    def test_public_header_includes_inside(self):
        self.expect("check_layers", "include/samebits/context.h", '#include "base/base.h"\n')

    def test_cli_includes_inside(self):
        self.expect("check_layers", "cli/main.c", '#include "ops/tensor.h"\n')

    def test_cli_includes_inside_by_path(self):
        self.expect("check_layers", "cli/main.c", "#include <base/base.h>\n")

    def test_new_folder_in_src(self):
        self.expect("check_layers", "src/helpers/helper.c", "int x;\n", "no layer")

    def test_comments_and_strings_do_not_count(self):
        self.expect_nothing("check_layers", "src/kernels/matmul/matmul_ref.c",
                            '/* malloc(1) */ // getenv("X")\nconst char *f = "malloc(1)";\n')

    def test_empty_tree(self):
        for name in FOLDERS[:-1]:
            shutil.rmtree(self.root / name, ignore_errors=True)
        self.assertEqual(self.run_tool("check_layers")[0], 1)


class Sizes(Planted):
    def test_long_file(self):
        self.expect("check_sizes", "src/ops/info.c", "\n" * 500, "want at most 500")

    def test_long_function(self):
        body = "static int planted(int x)\n{\n" + "    x++;\n" * 58 + "    return x;\n}\n"
        self.expect("check_sizes", "src/ops/info.c", body, "planted() has 62 lines")

    def test_longest_function_allowed(self):
        body = "static int planted(int x)\n{\n" + "    x++;\n" * 56 + "    return x;\n}\n"
        self.expect_nothing("check_sizes", "src/ops/info.c", body)

    def test_long_function_in_extern_c(self):
        body = '#ifdef __cplusplus\nextern "C" {\n#endif\nint planted(int x) {\n' + "    x++;\n" * 60 + "}\n"
        self.expect("check_sizes", "include/samebits/planted.h", body, "planted()")

    def test_long_macro(self):
        self.expect("check_sizes", "src/ops/info.c", "#define PLANTED(x) \\\n" + "    x; \\\n" * 61 + "    x\n", "PLANTED()")

    def test_long_python_function(self):
        self.expect("check_sizes", "tools/planted.py", "def planted():\n" + "    pass\n" * 60, "planted()")

    def test_excuse_holds(self):
        body = "static int planted(int x)\n{\n" + "    x++;\n" * 60 + "    return x;\n}\n"
        self.expect_nothing("check_sizes", "src/ops/info.c", body,
                            "tools/sizes_excused.txt", "src/ops/info.c:planted planted by a test\n")

    def test_excuse_without_reason(self):
        self.plant("src/ops/info.c", "static int planted(int x)\n{\n" + "    x++;\n" * 60 + "    return x;\n}\n")
        self.plant("tools/sizes_excused.txt", "src/ops/info.c:planted\n")
        code, output = self.run_tool("check_sizes")
        self.assertEqual(code, 1)
        self.assertIn("no reason", output)

    def test_stale_excuse(self):
        self.expect("check_sizes", "tools/sizes_excused.txt", "src/ops/info.c:nothing planted by a test\n",
                    "no excuse any more")


class Symbols(unittest.TestCase):
    def build(self, source, *flags):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        c, library = pathlib.Path(folder.name, "x.c"), pathlib.Path(folder.name, "x.so")
        c.write_text(source)
        subprocess.run(["cc", "-shared", "-fPIC", *flags, str(c), "-o", str(library)], check=True)
        return str(library)

    def run_tool(self, *args):
        done = subprocess.run([sys.executable, str(ROOT / "tools/check_symbols"), *args], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_holds(self):
        library = self.build("int samebits_x(void) { return 1; }", f"-Wl,--version-script={ROOT}/src/samebits.map")
        self.assertEqual(self.run_tool("--shared", library)[0], 0)

    def test_planted_export_without_version(self):
        code, output = self.run_tool("--shared", self.build("int samebits_x(void) { return 1; }"))
        self.assertEqual((code, "samebits_x without a version" in output), (1, True), output)

    def test_planted_export(self):
        library = self.build("int samebits_x(void) { return 1; }\nint sb_planted(void) { return 2; }")
        code, output = self.run_tool("--shared", library)
        self.assertEqual((code, "exports sb_planted" in output), (1, True), output)

    def test_planted_import(self):
        library = self.build("char *getenv(const char *);\nint samebits_x(void) { return getenv(\"X\") != 0; }")
        code, output = self.run_tool("--shared", library)
        self.assertEqual((code, "imports getenv" in output), (1, True), output)

    def test_planted_plugin_export(self):
        code, output = self.run_tool("--plugin", self.build("int ggml_backend_init;\nint planted;"))
        self.assertEqual((code, "exports planted" in output), (1, True), output)

    def test_nothing_exported(self):
        self.assertEqual(self.run_tool("--shared", self.build("int samebits_x;", "-fvisibility=hidden"))[0], 1)


class FuzzOps(unittest.TestCase):
    """With a program that stands in for samebits: op `bad` differs in one case, op `gone` ends by a signal."""
    PROGRAM = """#!/bin/sh
if [ "$1" = info ]; then
    printf '{"ops": ['
    for op in $OPS; do printf '%s{"op": "%s"}' "$comma" "$op"; comma=,; done
    printf ']}'
    exit
fi
[ -z "$CALLS" ] || echo "$7 $3" >> "$CALLS"
[ "$5" != gone ] || kill -SEGV $$
[ "$5" = bad ] && failed=1 || failed=0
[ $failed = 0 ] || echo "again: samebits verify" >&2
printf '{"fuzz": [{"form": "f32", "order": "portable-1", "cases": %s, "compared": 6, "failed": %s}]}' "$3" $failed
exit $failed
"""

    def run_tool(self, ops, cases=5, calls=""):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "samebits")
            program.write_text(self.PROGRAM)
            program.chmod(0o755)
            done = subprocess.run([sys.executable, str(ROOT / "tools/fuzz_ops"), str(program), "--cases", str(cases)],
                                  capture_output=True, text=True, env={**os.environ, "OPS": ops, "CALLS": calls})
        return done.returncode, done.stdout + done.stderr

    def test_holds(self):
        code, output = self.run_tool("good good other")
        self.assertEqual((code, "2 ops, 0 failed" in output), (0, True), output)
        self.assertRegex(output, r"good +1 +3 +18 +0 ")  # 5 cases over two forms, rounded up, a process each
        self.assertRegex(output, r"other +1 +5 +30 +0 ")

    def test_cases_of_their_own(self):
        with tempfile.NamedTemporaryFile("r") as calls:
            self.run_tool("good", 1000, calls.name)
            runs = [tuple(map(int, line.split())) for line in calls]
        cases = sorted(seed + i for seed, count in runs for i in range(count))
        self.assertGreater(len(runs), 1)
        self.assertEqual(cases, list(range(cases[0], cases[0] + 1000)))

    def test_a_case_differs(self):
        code, output = self.run_tool("good bad")
        self.assertEqual((code, "2 ops, 1 failed" in output, "again: samebits verify" in output), (1, True, True), output)

    def test_a_process_ends(self):
        code, output = self.run_tool("gone good")
        self.assertEqual((code, "gone: exit status -11" in output), (1, True), output)

    def test_no_ops(self):
        self.assertEqual(self.run_tool("")[0], 1)


if __name__ == "__main__":
    unittest.main()
