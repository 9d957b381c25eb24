"""tools/deps.sh, with a made-up package manager in front of the real one."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "deps.sh"

# All that a fully equipped machine with rustc of LLVM 22 has installed.
EVERYTHING = """python3 gcc libc6-dev make pkg-config autoconf patch xz-utils ca-certificates
libssl-dev zlib1g-dev libbz2-dev libreadline-dev libsqlite3-dev libffi-dev liblzma-dev
libncurses-dev libgdbm-dev libgdbm-compat-dev uuid-dev libexpat1-dev tk-dev
valgrind libc6-dbg gdb python3-venv
clang-22 lld-22 llvm-22 libclang-22-dev libclang-rt-22-dev""".split()

DPKG_QUERY = """
while [ $# -gt 0 ] && [ "$1" != -f ]; do shift; done
format=$2; shift 2
for package in "$@"; do
    if grep -qxF "$package" "$STATE/installed"; then
        case $format in
            *Package*) echo "installed $package" ;;
            *) printf 'installed ' ;;
        esac
    fi
done
"""

# What can be installed is in `available`, after `apt-get update` in `mirror`.
APT_CACHE = """
case $1 in
policy)
    version=$(sed -n "s/^$2 //p" "$STATE/available")
    printf '%s:\\n  Candidate: %s\\n' "$2" "${version:-(none)}" ;;
pkgnames) sed 's/ .*//' "$STATE/available" | grep "^$2" ;;
depends) cat "$STATE/depends" ;;
esac
"""

APT_GET = """
echo "$@" >>"$STATE/log"
if mkdir "$STATE/running" 2>/dev/null; then :; else echo two at once >>"$STATE/log"; fi
case "$*" in
update)
    if [ -s "$STATE/locked" ]; then
        sed -i 1d "$STATE/locked"
        echo "E: Could not get lock /var/lib/apt/lists/lock" >&2
        rmdir "$STATE/running"
        exit 100
    fi
    if [ -e "$STATE/mirror" ]; then cp "$STATE/mirror" "$STATE/available"; fi ;;
*install*)
    for word in "$@"; do case $word in -*|install|*=*) ;; *) echo "$word" >>"$STATE/installed" ;; esac; done
    if grep -q '^rustc' "$STATE/installed"; then echo 1.96.0 22 >"$STATE/rust"; fi ;;
esac
rmdir "$STATE/running"
[ ! -e "$STATE/broken" ]
"""

RUSTC = """
read version llvm <"$STATE/rust"
[ -n "$version" ] || exit 1
case $1 in
-vV) printf 'rustc %s\\nLLVM version: %s.1.2\\n' "$version" "$llvm" ;;
*) echo "rustc $version (0000000 2026-01-01)" ;;
esac
"""

SYSTEM_TOOLS = ("sh", "awk", "sed", "grep", "sort", "tail", "head", "cat", "mkdir", "rmdir",
                "cp", "env", "printf")


def where(tool):
    return next((p for d in ("/usr/bin", "/bin") if (p := Path(d) / tool).exists()), None)


class Case(unittest.TestCase):
    def setUp(self):
        temp = self.enterContext(tempfile.TemporaryDirectory())
        self.state = Path(temp) / "state"
        self.bin = Path(temp) / "bin"
        self.state.mkdir()
        self.bin.mkdir()
        for tool in SYSTEM_TOOLS:
            (self.bin / tool).symlink_to(where(tool))
        for name, body in (("dpkg-query", DPKG_QUERY), ("apt-cache", APT_CACHE),
                           ("apt-get", APT_GET), ("rustc", RUSTC), ("cargo", "exit 0"),
                           ("id", "cat \"$STATE/uid\""), ("sleep", "exit 0")):
            self.tool(name, body)
        self.put("uid", "0")
        self.put("rust", "1.95.0 22")
        self.put("depends", "rustc-web\n  Depends: libllvm22\n")
        self.put("log", "")
        self.installed(EVERYTHING)
        self.available({"gcc": "12.2", "rustc": "1.63.0+dfsg1-2", "cargo": "0.66",
                        "rustc-web": "1.96.0+dfsg1-1", "cargo-web": "1.96.0",
                        "clang-19": "1:19.1", "lld-19": "1:19.1",
                        "clang-22": "1:22.1", "lld-22": "1:22.1"})

    def tool(self, name, body):
        path = self.bin / name
        path.write_text(f"#!{where('sh')}\n{body}\n")
        path.chmod(0o755)

    def put(self, name, text):
        (self.state / name).write_text(text)

    def installed(self, packages):
        self.put("installed", "".join(f"{p}\n" for p in packages))

    def available(self, packages, name="available"):
        self.put(name, "".join(f"{p} {v}\n" for p, v in packages.items()))

    def run_it(self, *argv):
        return subprocess.run([str(where("sh")), str(SCRIPT), *argv], text=True,
                              env={"PATH": str(self.bin), "STATE": str(self.state)},
                              stdin=subprocess.DEVNULL, capture_output=True)

    def log(self):
        return (self.state / "log").read_text().splitlines()


class Print(Case):
    def test_nothing_missing_prints_nothing(self):
        run = self.run_it("--print")
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))

    def test_one_missing(self):
        self.installed(p for p in EVERYTHING if p != "uuid-dev")
        self.assertEqual(self.run_it("--print").stdout, "uuid-dev\n")
        self.assertEqual(self.log(), [])

    def test_a_name_that_contains_another_is_not_taken_for_it(self):
        self.installed(p for p in EVERYTHING if p not in ("gdb", "patch"))
        self.assertEqual(self.run_it("--print").stdout.split(), ["patch", "gdb"])

    def test_no_tests_leaves_out_their_tools(self):
        self.installed(p for p in EVERYTHING if p not in ("gdb", "valgrind"))
        self.assertEqual(self.run_it("--print", "--no-tests").stdout, "")
        self.assertEqual(self.run_it("--print", "--tests").stdout.split(), ["valgrind", "gdb"])

    def test_a_browser_for_the_tests_where_there_is_one_to_have(self):
        self.available({"gcc": "12.2", "chromium-headless-shell": "150"})
        self.assertEqual(self.run_it("--print").stdout, "chromium-headless-shell\n")
        self.assertEqual(self.run_it("--print", "--no-tests").stdout, "")
        self.tool("chromium", "exit 0")
        self.assertEqual(self.run_it("--print").stdout, "")

    def test_old_rust_gets_the_newer_flavour_and_its_llvm(self):
        self.put("rust", "1.63.0 14")
        self.installed(p for p in EVERYTHING if "22" not in p)
        self.assertEqual(self.run_it("--print").stdout.split(),
                         ["rustc-web", "cargo-web", "clang-22", "lld-22", "llvm-22",
                          "libclang-22-dev", "libclang-rt-22-dev"])

    def test_plain_rustc_where_it_is_new_enough(self):
        self.put("rust", "")
        self.available({"gcc": "14", "rustc": "1.85.0+dfsg3-1", "cargo": "1.85.0",
                        "clang-19": "1:19.1", "lld-19": "1:19.1"})
        self.put("depends", "libstd-rust-1.85\n  Depends: libllvm19\n")
        self.assertEqual(self.run_it("--print").stdout.split()[:3],
                         ["rustc", "cargo", "clang-19"])

    def test_versions_are_compared_as_numbers(self):
        self.put("rust", "1.100.0 22")
        self.assertEqual(self.run_it("--print").stdout, "")
        self.put("rust", "1.9.0 22")
        self.assertIn("rustc-web", self.run_it("--print").stdout)

    def test_rust_without_cargo_is_not_rust(self):
        (self.bin / "cargo").unlink()
        self.assertIn("cargo-web", self.run_it("--print").stdout)


class Run(Case):
    def test_all_there_is_one_line_and_no_apt_get(self):
        run = self.run_it()
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "deps: all there\n", ""))
        self.assertEqual(self.log(), [])

    def test_root_updates_then_installs_once(self):
        self.installed(p for p in EVERYTHING if p not in ("gcc", "tk-dev"))
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.log(), [
            "update", "-o DPkg::Lock::Timeout=300 install -y --no-install-recommends gcc tk-dev"])
        self.assertEqual(self.run_it().stdout, "deps: all there\n")

    def test_fresh_machine_without_package_lists(self):
        (self.state / "available").rename(self.state / "mirror")
        self.available({})
        self.put("rust", "")
        self.installed([])
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([line.split()[0] for line in self.log()], ["update", "-o"])
        for package in ("rustc-web", "cargo-web", "clang-22", "lld-22", "libssl-dev", "gdb"):
            self.assertIn(package, self.log()[1].split())
        self.assertEqual(self.run_it().stdout, "deps: all there\n")

    def test_waits_for_the_lock(self):
        self.installed(p for p in EVERYTHING if p != "gcc")
        self.put("locked", "once\ntwice\n")
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("waiting for another apt", run.stderr)
        self.assertEqual([line.split()[0] for line in self.log()], ["update"] * 3 + ["-o"])

    def test_failed_install_is_an_error(self):
        self.installed(p for p in EVERYTHING if p != "gcc")
        self.put("broken", "")
        run = self.run_it()
        self.assertEqual(run.returncode, 1)
        self.assertIn("could not install: gcc", run.stderr)

    def test_other_users_get_the_command(self):
        self.put("uid", "1000")
        self.installed(p for p in EVERYTHING if p != "gcc")
        run = self.run_it()
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stdout, "apt-get update && apt-get install -y "
                                     "--no-install-recommends gcc\n")
        self.assertEqual(self.log(), [])

    def test_other_users_without_package_lists_get_the_script(self):
        self.put("uid", "1000")
        self.available({})
        self.put("rust", "")
        run = self.run_it()
        self.assertEqual((run.returncode, run.stdout), (1, f"sh {SCRIPT}\n"))

    def test_no_rust_anywhere_says_how_to_get_it(self):
        self.put("rust", "1.63.0 14")
        self.available({"gcc": "12.2", "rustc": "1.63.0", "clang-14": "1:14", "lld-14": "1:14"})
        run = self.run_it()
        self.assertEqual(run.returncode, 1)
        self.assertIn("rustup.rs", run.stderr)
        self.assertIn("found on PATH: 1.63.0", run.stderr)

    def test_older_clang_is_taken_with_a_remark(self):
        self.put("rust", "1.99.0 30")
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(re.search(r"rustc is of LLVM 30, the newest clang here is 22.*refused",
                                  run.stdout))

    def test_a_stale_rustc_in_front_of_the_installed_one(self):
        self.put("rust", "1.63.0 14")
        self.tool("rustc", "echo rustc 1.63.0")
        run = self.run_it()
        self.assertEqual(run.returncode, 1)
        self.assertIn("rustc on PATH is 1.63.0", run.stderr)


class Elsewhere(Case):
    def test_names_what_is_needed(self):
        (self.bin / "apt-get").unlink()
        run = self.run_it()
        self.assertEqual(run.returncode, 1)
        self.assertIn("rustc and cargo >= 1.85", run.stderr)
        self.assertIn("missing on PATH: python3 cc", run.stderr)

    def test_content_where_the_tools_are_there(self):
        (self.bin / "apt-get").unlink()
        for tool in ("python3", "cc", "make", "pkg-config", "autoconf", "patch", "xz", "clang"):
            self.tool(tool, "exit 0")
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("no apt here", run.stdout)


class Usage(Case):
    def test_help(self):
        run = self.run_it("--help")
        self.assertEqual(run.returncode, 0)
        self.assertIn("--print", run.stdout)

    def test_unknown_option(self):
        self.assertEqual(self.run_it("--frobnicate").returncode, 2)
