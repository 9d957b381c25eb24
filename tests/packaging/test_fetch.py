"""cpython/fetch.py on small made-up tarballs: every origin, and every way to fail."""

import contextlib
import errno
import fcntl
import hashlib
import http.server
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "cpython" / "fetch.py"
SPEC = importlib.util.spec_from_file_location("fetch", SCRIPT)
fetch = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fetch)
from upstream import cache, cases, choosing, debian, python_org, tree  # noqa: E402  (fetch.py leads there)
from upstream import files as upstream_files  # noqa: E402
from upstream.pins import Pins as UpstreamPins  # noqa: E402

SOURCE = "".join(f"line {n}\n" for n in range(1, 13))
OLD = 1_700_000_000
REVISION = "3.13.5-2+deb13u5"


def patch_text(file, line, text):
    """Adds `text`, guarded where it is C, after line `line` of a file like SOURCE."""
    added = ["#ifdef Py_RUST_CORE", text, "#endif"] if file.endswith((".c", ".h")) else [text]
    return (f"--- a/{file}\n+++ b/{file}\n@@ -{line - 1},4 +{line - 1},{4 + len(added)} @@\n"
            f" line {line - 1}\n line {line}\n" + "".join(f"+{new}\n" for new in added)
            + f" line {line + 1}\n line {line + 2}\n")


def tarball(files):
    """Bytes of a .tar.xz."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(text.encode()), OLD, 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def release_tarball(version):
    top = f"Python-{version}"
    return tarball({f"{top}/{name}": SOURCE for name in ("a.c", "b.c", "sub/c.h", "README")})


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Server:
    """Serves a dictionary of files on the loopback interface."""

    def __init__(self):
        self.files, self.cut, self.asked = {}, None, []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                owner.asked.append(self.path)
                data = owner.files.get(self.path.rpartition("/")[2])
                if data is None:
                    return self.send_error(404)
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[:owner.cut])

            def log_message(self, *_):
                pass

        self.http = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


# Takes the place of the three apt programs; what it serves lies in $FAKE_APT.
FAKE_APT = """#!/bin/sh
echo "$(basename "$0") $* [$APT_CONFIG]" >>"$FAKE_APT/log"
[ -z "$APT_CONFIG" ] || cat "$(sed -n 's/^Dir::Etc::sourceparts "\\(.*\\)";/\\1/p' "$APT_CONFIG")"/* \\
    "$APT_CONFIG" >"$FAKE_APT/config"
case "$(basename "$0") $*" in
"apt-config dump") cat "$FAKE_APT/dump" ;;
"apt-get update")
    if [ -e "$FAKE_APT/no-security" ] && grep -q trixie-security "$FAKE_APT/config"; then
        echo "E: no security today" >&2; exit 100
    fi
    if [ -e "$FAKE_APT/down" ]; then echo "E: Temporary failure resolving" >&2; exit 100; fi ;;
"apt-cache showsrc"*) cat "$FAKE_APT/versions" ;;
"apt-get source"*) cp "$FAKE_APT"/pool/* . ;;
esac
"""


class Case(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.base = Path(temp.name)
        self.dest, self.cache = self.base / "src", self.base / "cache"
        self.patches, self.apt = self.base / "patches", self.base / "apt"
        self.patches.mkdir()
        (self.patches / "series").write_text("")
        self.overlay = self.base / "overlay"
        self.overlay.mkdir()
        self.server = Server()
        self.addCleanup(self.server.close)
        self.data = {v: release_tarball(v) for v in ("3.13.15", "3.13.5")}
        self.config = self.base / "upstream.toml"
        self.write_config()
        # No apt, unless the test brings one.
        self.bin = self.base / "bin"
        self.bin.mkdir()
        for tool in ("patch", "sh", "sed", "cat", "cp", "grep", "basename", "dpkg"):
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)
        patched = mock.patch.dict(os.environ, {"PATH": str(self.bin), "no_proxy": "127.0.0.1",
                                               "FAKE_APT": str(self.apt)})
        patched.start()
        self.addCleanup(patched.stop)

    def write_config(self):
        text = ""
        for version, suite, fixes, origins in (
                ("3.13.15", "testing", "false", ["python.org", "debian"]),
                ("3.13.5", "trixie", "true", ["debian", "python.org"])):
            text += (f'[[release]]\nversion = "{version}"\nfile = "Python-{version}.tar.xz"\n'
                     f'sha256 = "{digest(self.data[version])}"\nsuite = "{suite}"\n'
                     f'url = "{self.server.url}/Python-{version}.tar.xz"\n'
                     f'debian_fixes = {fixes}\norigins = {json.dumps(origins)}\n')
        for version, origin in (("3.13.15", "python.org"), ("3.13.5", "debian")):
            text += f'[[default]]\nversion = "{version}"\norigin = "{origin}"\n'
        text += '[debian]\nsource = "python3.13"\nfixes = ["CVE-*.patch", "crash.patch"]\n'
        self.config.write_text(text)

    def serve(self, version="3.13.15", data=None):
        name = f"Python-{version}.tar.xz"
        self.server.files[name] = self.data[version] if data is None else data
        return name

    def with_apt(self):
        """A machine with apt, and Debian's 3.13.5 on its mirror."""
        (self.apt / "pool").mkdir(parents=True)
        for name in ("apt-get", "apt-cache", "apt-config"):
            (self.bin / name).write_text(FAKE_APT)
            (self.bin / name).chmod(0o755)
        etc = self.apt / "etc"
        etc.mkdir()
        (self.apt / "dump").write_text(
            f'Dir "/";\nDir::Etc "{etc}";\nDir::Etc::sourcelist "sources.list";\n'
            'Dir::Etc::sourceparts "sources.list.d";\nAcquire::http::Proxy "http://proxy:1/";\n'
            'APT::Update::Post-Invoke:: "rm -rf everything";\n')
        (etc / "sources.list").write_text(
            "# deb http://old.example/debian bookworm main\n"
            "deb [signed-by=/k.gpg arch=amd64] http://mirror.example/debian bookworm main\n"
            "deb http://safe.example/debian-security bookworm-security main\n")
        (self.apt / "versions").write_text(f"Package: python3.13\nVersion: {REVISION}\n")
        self.fixes({"CVE-1.patch": patch_text("a.c", 3, "fix one"),
                    "other.patch": patch_text("a.c", 9, "not wanted"),
                    "crash.patch": patch_text("b.c", 3, "fix two")})

    def fixes(self, named, revision=REVISION):
        pool = self.apt / "pool"
        shutil.rmtree(pool)
        pool.mkdir()
        files = {f"debian/patches/{n}": t for n, t in named.items()}
        files["debian/patches/series"] = "".join(f"{n}\n" for n in named) + "#CVE-0.patch\n"
        data = tarball(files)
        (pool / "python3.13_3.13.5.orig.tar.xz").write_bytes(self.data["3.13.5"])
        (pool / f"python3.13_{revision}.debian.tar.xz").write_bytes(data)
        (pool / f"python3.13_{revision}.dsc").write_text(
            "Format: 3.0 (quilt)\nChecksums-Sha256:\n"
            f" {digest(self.data['3.13.5'])} 1 python3.13_3.13.5.orig.tar.xz\n"
            f" {digest(data)} {len(data)} python3.13_{revision}.debian.tar.xz\nFiles:\n")

    def apt_log(self):
        log = self.apt / "log"
        return log.read_text().splitlines() if log.exists() else []

    def run_it(self, *argv, **env):
        """Run in this process; return the exit code. self.out and self.err keep what it said."""
        out, err = io.StringIO(), io.StringIO()
        env.setdefault("FERRULE_CACHE", str(self.cache))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = fetch.main(["--dest", str(self.dest), "--config", str(self.config),
                               "--patches", str(self.patches), "--overlay", str(self.overlay),
                               *argv], env)
        self.out, self.err = out.getvalue(), err.getvalue()
        return code

    def works(self, *argv, **env):
        self.assertEqual(self.run_it(*argv, **env), 0, f"{self.out}{getattr(self, 'err', '')}")
        return json.loads((self.dest / "current.json").read_text())

    def tree(self):
        return Path(json.loads((self.dest / "current.json").read_text())["source"])

    def series(self, **named):
        for name, text in named.items():
            (self.patches / f"{name}.patch").write_text(text)
        (self.patches / "series").write_text("".join(f"{n}.patch\n" for n in named))

    def add(self, name, text):
        path = self.overlay / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def assert_no_litter(self):
        for place in (self.dest, self.cache):
            self.assertEqual(list(place.glob(".tmp-*")), [])
        litter = [p for p in self.dest.rglob("*") if p.suffix in (".orig", ".rej")]
        self.assertEqual(litter, [])


class PythonOrg(Case):
    def test_fetches_unpacks_and_says_what(self):
        self.serve()
        current = self.works()
        self.assertEqual(
            {k: current[k] for k in ("version", "origin", "debian_revision", "fixes",
                                     "tarball_sha256")},
            {"version": "3.13.15", "origin": "python.org", "debian_revision": None,
             "fixes": [], "tarball_sha256": digest(self.data["3.13.15"])})
        self.assertEqual((self.tree() / "sub" / "c.h").read_text(), SOURCE)
        self.assertEqual((self.tree() / "a.c").stat().st_mtime, OLD)
        self.assertIn("CPython 3.13.15", self.out)
        self.assert_no_litter()

    def test_again_does_nothing_even_without_cache_and_network(self):
        self.serve()
        self.works()
        inode = self.tree().stat().st_ino
        shutil.rmtree(self.cache)
        self.server.files.clear()
        self.works()
        self.assertEqual(self.tree().stat().st_ino, inode)
        self.assertEqual(len(self.server.asked), 1)
        self.assertEqual(self.out.count("\n"), 1)
        self.assertIn("up to date", self.out)

    def test_cache_serves_another_clone(self):
        self.serve()
        self.works()
        self.server.files.clear()
        self.dest = self.base / "other"
        self.works()
        self.assertEqual(len(self.server.asked), 1)

    def test_wrong_file_is_an_error_and_is_not_kept(self):
        self.serve(data=b"something else")
        self.assertEqual(self.run_it(), 1)
        self.assertIn(f"expected {digest(self.data['3.13.15'])}", self.err)
        self.assertIn(f"found    {digest(b'something else')}", self.err)
        self.assertFalse((self.dest / "current.json").exists())
        self.serve()
        self.works()

    def test_interrupted_download_then_recovers(self):
        self.serve()
        self.server.cut = 100
        self.assertEqual(self.run_it(), 3)
        self.assertIn("interrupted after 100 of", self.err)
        self.assert_no_litter()
        self.server.cut = None
        self.works()

    def test_damaged_cache_is_got_again(self):
        name = self.serve()
        self.works()
        shutil.rmtree(self.dest)
        (self.cache / name).write_bytes(self.data["3.13.15"][:50])
        self.works()
        self.assertIn("damaged", self.err)
        self.assertEqual(len(self.server.asked), 2)

    def test_vulnerable_release_only_with_a_warning(self):
        self.serve("3.13.5")
        current = self.works(CPYTHON_VERSION="3.13.5")
        self.assertEqual((current["origin"], current["fixes"]), ("python.org", []))
        self.assertIn("known vulnerabilities", self.err)
        self.works("--version", "3.13.5")
        self.assertIn("known vulnerabilities", self.err)

    def test_unknown_version(self):
        self.assertEqual(self.run_it(CPYTHON_VERSION="3.12.0"), 1)
        self.assertIn("3.13.15, 3.13.5", self.err)


class NoNetwork(Case):
    def test_names_the_file_and_its_hash(self):
        self.assertEqual(self.run_it(), 3)
        for part in ("Python-3.13.15.tar.xz", digest(self.data["3.13.15"]),
                     "CPYTHON_TARBALL=", "404", "apt-config is not on this machine"):
            self.assertIn(part, self.err)

    def test_names_the_version_asked_for(self):
        self.assertEqual(self.run_it(CPYTHON_VERSION="3.13.5"), 3)
        self.assertIn(digest(self.data["3.13.5"]), self.err)
        self.assertNotIn("3.13.15", self.err)

    def test_file_put_into_the_cache_by_hand(self):
        self.cache.mkdir()
        (self.cache / "Python-3.13.15.tar.xz").write_bytes(self.data["3.13.15"])
        self.assertEqual(self.works()["version"], "3.13.15")


class DebiansPackaging(Case):
    """A release and Debian's packaging of it, given as files or unpacked, as a source package has them."""

    def setUp(self):
        super().setUp()
        self.changelog = f"python3.13 ({REVISION}) trixie-security; urgency=medium\n"
        self.files = {"debian/patches/series": "#off.diff\nCVE-1.patch\n\nother.patch # why\n",
                      "debian/patches/CVE-1.patch": patch_text("a.c", 3, "fix one"),
                      "debian/patches/other.patch": patch_text("a.c", 9, "debian's own")}

    def given(self, unpacked=True):
        files = {**self.files, "debian/changelog": self.changelog}
        source, packaging = self.base / "given.tar.xz", self.base / "debian.tar.xz"
        source.write_bytes(self.data["3.13.5"])
        packaging.write_bytes(tarball(files))
        if unpacked:
            for path in (source, packaging):
                with tarfile.open(path) as tar:
                    tar.extractall(self.base / "unpacked", filter="data")
            source, packaging = self.base / "unpacked" / "Python-3.13.5", self.base / "unpacked" / "debian"
            self.write_config()
            self.config.write_text(self.config.read_text().replace(
                f'sha256 = "{digest(self.data["3.13.5"])}"\n',
                f'sha256 = "{digest(self.data["3.13.5"])}"\ntree_sha256 = "{upstream_files.digest(source)}"\n'))
        return {"CPYTHON_TARBALL": str(source), "CPYTHON_DEBIAN": str(packaging)}

    def test_its_fixes_are_applied_or_all_of_its_series(self):
        for unpacked in (False, True):
            given = self.given(unpacked)
            current = self.works(**given)
            self.assertEqual((current["debian_revision"], current["fixes"], current["series"]),
                             (REVISION, ["CVE-1.patch"], "fixes"))
            self.assertNotIn("vulnerabilities", self.err)
            current = self.works(**given, CPYTHON_SERIES="debian")
            self.assertEqual((current["fixes"], current["series"]), (["CVE-1.patch", "other.patch"], "debian"))
            self.assertIn("debian's own", (self.tree() / "a.c").read_text())
            self.works(**given, CPYTHON_SERIES="debian")
            self.assertIn("up to date", self.out)
            self.files["debian/patches/CVE-1.patch"] = patch_text("a.c", 3, "a newer one")
            self.works(**self.given(unpacked), CPYTHON_SERIES="debian")
            self.assertIn("a newer one", (self.tree() / "a.c").read_text())

    def test_the_whole_series_of_debians_archive(self):
        self.with_apt()
        current = self.works(CPYTHON_VERSION="3.13.5", CPYTHON_SERIES="debian")
        self.assertEqual(current["fixes"], ["CVE-1.patch", "other.patch", "crash.patch"])
        self.assertEqual(self.works(CPYTHON_VERSION="3.13.5")["fixes"], ["CVE-1.patch", "crash.patch"])

    def test_a_directory_that_is_not_what_was_unpacked_is_refused(self):
        given = self.given()
        for change in (lambda tree: (tree / "a.c").write_text("other"), lambda tree: (tree / "sub" / "c.h").unlink(),
                       lambda tree: (tree / "new").write_text("")):
            changed = self.base / "changed"
            shutil.rmtree(changed, ignore_errors=True)
            shutil.copytree(given["CPYTHON_TARBALL"], changed)
            change(changed)
            self.assertEqual(self.run_it(CPYTHON_TARBALL=str(changed)), 1)
            self.assertIn(f"expected {upstream_files.digest(Path(given['CPYTHON_TARBALL']))}", self.err)
            self.assertIn("not what was unpacked", self.err)

    def test_the_packaging_of_another_release_or_none_is_refused(self):
        self.changelog = "python3.13 (3.13.9-1) unstable; urgency=low\n"
        self.assertEqual(self.run_it(**self.given()), 1)
        self.assertIn("begins with 'python3.13 (3.13.9-1) unstable; urgency=low'", self.err)
        given = self.given(unpacked=False)
        for path in (self.base / "none", given["CPYTHON_TARBALL"]):
            self.assertEqual(self.run_it(**{**given, "CPYTHON_DEBIAN": str(path)}), 1)
            self.assertIn("is not Debian's packaging of python3.13", self.err)

    def test_what_makes_no_sense_says_so(self):
        self.assertEqual(self.run_it(CPYTHON_DEBIAN="/x"), 1)
        self.assertIn("CPYTHON_DEBIAN= goes with CPYTHON_TARBALL=", self.err)
        self.assertEqual(self.run_it(CPYTHON_SERIES="all"), 1)
        self.assertIn("CPYTHON_SERIES is 'all'; it is one of fixes, debian", self.err)


class SourceRelease(Case):
    def test_the_files_that_came_with_it_are_the_cache(self):
        self.assertEqual(cache.default_cache({"XDG_CACHE_HOME": "/c"}, self.base), Path("/c/ferrule"))
        (self.base / "sources").mkdir()
        self.assertEqual(cache.default_cache({"XDG_CACHE_HOME": "/c"}, self.base), self.base / "sources")
        self.assertEqual(cache.default_cache({"FERRULE_CACHE": "/given"}, self.base), Path("/given"))


class UserTarball(Case):
    def given(self, data):
        path = self.base / "whatever.tar.xz"
        path.write_bytes(data)
        return str(path)

    def test_is_recognised_by_its_hash(self):
        current = self.works(CPYTHON_TARBALL=self.given(self.data["3.13.15"]))
        self.assertEqual((current["version"], current["origin"]), ("3.13.15", "user"))
        self.assertNotIn("vulnerabilities", self.err)
        self.works(CPYTHON_TARBALL=self.given(self.data["3.13.15"]))
        self.assertIn("up to date", self.out)

    def test_vulnerable_one_warns(self):
        self.works(CPYTHON_TARBALL=self.given(self.data["3.13.5"]))
        self.assertIn("known vulnerabilities", self.err)

    def test_truncated_or_other_file(self):
        cut = self.data["3.13.5"][:-10]
        self.assertEqual(self.run_it(CPYTHON_TARBALL=self.given(cut)), 1)
        for part in (digest(self.data["3.13.5"]), digest(self.data["3.13.15"]), digest(cut)):
            self.assertIn(part, self.err)

    def test_not_the_version_asked_for(self):
        given = self.given(self.data["3.13.5"])
        self.assertEqual(self.run_it(CPYTHON_TARBALL=given, CPYTHON_VERSION="3.13.15"), 1)
        self.assertIn(f"expected {digest(self.data['3.13.15'])}", self.err)

    def test_the_tree_outlives_the_file(self):
        given = self.given(self.data["3.13.15"])
        self.works(CPYTHON_TARBALL=given)
        os.unlink(given)
        self.works(CPYTHON_TARBALL=given)
        self.assertIn("up to date", self.out)
        self.series(own=patch_text("a.c", 6, "own"))
        self.assertEqual(self.run_it(CPYTHON_TARBALL=given), 1)

    def test_missing_file(self):
        self.assertEqual(self.run_it(CPYTHON_TARBALL=str(self.base / "none")), 1)
        self.assertIn("No such file", self.err)


class Debian(Case):
    def setUp(self):
        super().setUp()
        self.with_apt()

    def test_fixes_are_applied_in_order_before_the_patches(self):
        self.series(own=patch_text("sub/c.h", 5, "own"))
        current = self.works()
        self.assertEqual((current["origin"], current["debian_revision"]), ("debian", REVISION))
        self.assertEqual(current["fixes"], ["CVE-1.patch", "crash.patch"])
        self.assertIn("fix one", (self.tree() / "a.c").read_text())
        self.assertNotIn("not wanted", (self.tree() / "a.c").read_text())
        self.assertIn("fix two", (self.tree() / "b.c").read_text())
        self.assertIn("own", (self.tree() / "sub" / "c.h").read_text())
        self.assertNotIn("WARNING", self.err)
        self.assert_no_litter()

    def test_apt_is_private_but_keeps_the_machines_mirror_and_proxy(self):
        self.works()
        config = (self.apt / "config").read_text()
        self.assertIn("URIs: http://mirror.example/debian\nSuites: trixie\n", config)
        self.assertIn("Signed-By: /k.gpg", config)
        self.assertIn("URIs: http://safe.example/debian-security\nSuites: trixie-security\n", config)
        self.assertIn('Acquire::http::Proxy "http://proxy:1/";', config)
        self.assertIn('Dir::Etc::parts "/dev/null";', config)
        self.assertIn(f'Dir::State::lists "{self.cache}/', config)
        self.assertNotIn("Post-Invoke", config)
        self.assertNotIn("old.example", config)

    def test_python_org_comes_first(self):
        self.serve()
        self.assertEqual(self.works()["version"], "3.13.15")
        self.assertEqual(self.apt_log(), [])

    def test_the_release_itself_comes_from_debian_first(self):
        self.serve("3.13.5")
        self.assertEqual(self.works(CPYTHON_VERSION="3.13.5")["origin"], "debian")

    def test_stays_with_its_choice_whatever_was_cached_since(self):
        self.works()
        self.serve()
        self.works(CPYTHON_VERSION="3.13.15")
        (self.patches / "series").write_text("# changed\n")
        self.series(own=patch_text("a.c", 6, "own"))
        self.assertEqual(self.works()["version"], "3.13.5")

    def test_the_cache_does_not_choose_the_release(self):
        self.works(CPYTHON_VERSION="3.13.5")
        self.serve()
        self.dest = self.base / "other"
        self.assertEqual(self.works()["version"], "3.13.15")
        self.dest = self.base / "third"
        self.assertEqual(self.works()["version"], "3.13.15")

    @unittest.skipIf(os.geteuid(), "only root can become somebody else")
    def test_a_cache_that_cannot_be_written_is_read(self):
        self.works(CPYTHON_VERSION="3.13.5")
        self.base.chmod(0o755)
        self.dest = self.base / "other"
        self.dest.mkdir()
        os.chown(self.dest, 65534, 65534)
        (self.cache / ".lock").unlink()
        os.seteuid(65534)
        self.addCleanup(os.seteuid, 0)
        self.assertEqual(self.works(CPYTHON_VERSION="3.13.5")["debian_revision"], REVISION)
        self.assertFalse((self.cache / ".lock").exists())

    def test_cache_needs_no_apt(self):
        self.works()
        shutil.rmtree(self.dest)
        (self.apt / "log").unlink()
        self.assertEqual(self.works()["debian_revision"], REVISION)
        self.assertEqual(self.apt_log(), [])

    def test_damaged_fixes_in_the_cache_are_got_again(self):
        self.works()
        shutil.rmtree(self.dest)
        damaged = self.cache / f"python3.13_{REVISION}.debian.tar.xz"
        damaged.write_bytes(damaged.read_bytes()[:40])
        self.works()
        self.assertIn("got again", self.err)
        self.assertIn("fix one", (self.tree() / "a.c").read_text())

    def test_damaged_description_in_the_cache_is_got_again(self):
        self.works()
        shutil.rmtree(self.dest)
        (self.cache / f"python3.13_{REVISION}.dsc").write_text("")
        self.works()
        self.assertIn("is damaged", self.err)

    def test_fixes_that_are_not_those_of_the_description(self):
        (self.apt / "pool" / f"python3.13_{REVISION}.debian.tar.xz").write_bytes(b"evil")
        self.assertEqual(self.run_it(), 1)
        self.assertIn(f"found    {digest(b'evil')}", self.err)
        self.assertEqual(list(self.cache.glob("debian-*.json")), [])

    def test_other_tarball(self):
        (self.apt / "pool" / "python3.13_3.13.5.orig.tar.xz").write_bytes(b"evil")
        self.assertEqual(self.run_it(), 1)
        self.assertIn(f"expected {digest(self.data['3.13.5'])}", self.err)

    def test_refresh_brings_newer_fixes(self):
        self.works()
        newer = "3.13.5-2+deb13u6"
        self.fixes({"CVE-2.patch": patch_text("a.c", 3, "newer")}, newer)
        (self.apt / "versions").write_text(f"Version: {newer}\n")
        self.assertEqual(self.works()["debian_revision"], REVISION)
        current = self.works("--refresh")
        self.assertEqual(current["debian_revision"], newer)
        self.assertNotIn("fix one", (self.tree() / "a.c").read_text())

    def test_refresh_without_network_keeps_what_is_there(self):
        self.works()
        (self.apt / "down").touch()
        self.assertEqual(self.works("--refresh")["debian_revision"], REVISION)
        self.assertIn("going on with what is in the cache", self.err)

    def test_without_the_security_suite_there_is_a_warning(self):
        (self.apt / "no-security").touch()
        self.works()
        self.assertIn("newest fixes may be missing", self.err)

    def test_mirror_has_moved_on(self):
        (self.apt / "versions").write_text("Version: 3.14.0-1\n")
        self.assertEqual(self.run_it(), 3)
        self.assertIn("the mirror has 3.14.0-1, not 3.13.5", self.err)

    def test_mirror_is_down(self):
        (self.apt / "down").touch()
        self.assertEqual(self.run_it(), 3)
        self.assertIn("Temporary failure resolving", self.err)
        self.assertIn("CPYTHON_TARBALL=", self.err)

    def test_no_fix_matches(self):
        self.fixes({"other.patch": patch_text("a.c", 9, "not wanted")})
        self.assertEqual(self.run_it(), 1)
        self.assertIn("none of the fixes", self.err)


class AptSources(unittest.TestCase):
    def test_deb822(self):
        text = ("Types: deb\nURIs: http://a/debian http://b/debian\n# comment\n"
                "Suites: bookworm bookworm-updates\nComponents: main contrib\n"
                "Signed-By:\n -----BEGIN PGP-----\n .\n abc\n\n"
                "Types: deb\nEnabled: no\nURIs: http://c/\nSuites: x\nComponents: main\n")
        entries = list(debian.deb822_entries(text))
        self.assertEqual([(e[0], e[1]) for e in entries],
                         [("http://a/debian", "bookworm"), ("http://a/debian", "bookworm-updates"),
                          ("http://b/debian", "bookworm"), ("http://b/debian", "bookworm-updates")])
        self.assertEqual(entries[0][3], "-----BEGIN PGP-----\n .\n abc")
        self.assertIn("Signed-By:\n -----BEGIN PGP-----\n .\n abc\n",
                      debian.stanza("u", "s", entries[0][3]))

    def test_one_line(self):
        text = ("deb cdrom:[x]/ bookworm main\n#deb http://no/ x main\n"
                "deb [ trusted=yes signed-by=/k ] http://a/debian trixie main contrib # why\n")
        self.assertIn(("http://a/debian", "trixie", ["main", "contrib"], "/k"),
                      list(debian.one_line_entries(text)))
        self.assertNotIn("http://no/", str(list(debian.one_line_entries(text))))


class Tree(Case):
    def setUp(self):
        super().setUp()
        self.serve()

    def test_changed_patches_make_the_tree_anew_without_the_network(self):
        self.series(one=patch_text("a.c", 3, "first"), two=patch_text("b.c", 3, "kept"))
        before = self.works()
        times = {n: (self.tree() / n).stat().st_mtime_ns for n in ("a.c", "b.c", "README")}
        self.series(one=patch_text("a.c", 3, "second"), two=patch_text("b.c", 3, "kept"))
        after = self.works()
        self.assertIn("second", (self.tree() / "a.c").read_text())
        self.assertNotIn("first", (self.tree() / "a.c").read_text())
        self.assertNotEqual(before["patches_sha256"], after["patches_sha256"])
        self.assertEqual(len(self.server.asked), 1)
        now = {n: (self.tree() / n).stat().st_mtime_ns for n in times}
        self.assertGreater(now["a.c"], times["a.c"])
        self.assertEqual((now["b.c"], now["README"]), (times["b.c"], times["README"]))
        self.assertEqual(now["README"], OLD * 10**9)

    def test_a_file_no_longer_patched_is_newer_too(self):
        self.series(one=patch_text("a.c", 3, "first"))
        self.works()
        patched = (self.tree() / "a.c").stat().st_mtime_ns
        self.series()
        self.works()
        self.assertEqual((self.tree() / "a.c").read_text(), SOURCE)
        self.assertGreaterEqual((self.tree() / "a.c").stat().st_mtime_ns, patched)

    def test_a_patch_that_fails_leaves_the_good_tree(self):
        self.works()
        good = self.tree()
        self.series(bad=patch_text("a.c", 3, "x").replace(" line 4", " LINE 4"))
        self.assertEqual(self.run_it(), 1)
        self.assertIn("bad.patch does not apply: a.c: Hunk #1 FAILED", self.err)
        self.assertEqual((good / "a.c").read_text(), SOURCE)
        failed = self.dest / "3.13.15-python.org.failed"
        self.assertTrue((failed / "Python-3.13.15" / fetch.patches.FAILED_MARK).exists())
        self.series()
        self.works()
        self.assertIn("up to date", self.out)

    def test_missing_series_is_an_error_and_is_not_made(self):
        (self.patches / "series").unlink()
        self.assertEqual(self.run_it(), 1)
        self.assertIn("series is missing", self.err)
        self.assertFalse((self.patches / "series").exists())

    def test_interrupted_unpack_recovers(self):
        with mock.patch.object(tree, "unpack", side_effect=KeyboardInterrupt):
            self.assertEqual(self.run_it(), 130)
        self.assertFalse((self.dest / "current.json").exists())
        self.assert_no_litter()
        self.works()

    def test_what_a_killed_run_left_is_removed(self):
        for place in (self.dest, self.cache):
            (place / ".tmp-killed" / "half").mkdir(parents=True)
        self.works()
        self.assert_no_litter()

    def test_a_tree_that_was_being_swapped_is_made_again(self):
        self.works()
        shutil.rmtree(self.dest / "3.13.15-python.org")
        self.works()
        self.assertTrue((self.tree() / "a.c").exists())

    def test_a_half_written_stamp_counts_as_none(self):
        self.works()
        (self.dest / "3.13.15-python.org" / "stamp.json").write_text('{"version": ')
        self.works()
        self.assertNotIn("up to date", self.out)

    def test_full_disk_while_unpacking(self):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.c")
        with mock.patch.object(tarfile.TarFile, "extract", side_effect=full):
            self.assertEqual(self.run_it(), 1)
        self.assertIn("no space left", self.err)
        self.assert_no_litter()
        self.works()

    def test_full_disk_while_downloading(self):
        class Full(io.BytesIO):
            def write(self, _):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def opener(path, mode="r", **more):
            return Full() if mode == "wb" else open(path, mode, **more)

        with mock.patch.object(python_org, "open", opener, create=True):
            self.assertEqual(self.run_it(), 1)
        self.assertIn("no space left", self.err)
        self.assert_no_litter()
        self.works()

    def test_unwritable_cache_says_what_to_set(self):
        denied = PermissionError(errno.EACCES, "Permission denied", str(self.cache))
        with mock.patch.object(fetch.Path, "mkdir", side_effect=denied):
            self.assertEqual(self.run_it(), 1)
        self.assertIn("FERRULE_CACHE=", self.err)

    def test_paths_that_lead_out_are_refused(self):
        self.data["3.13.15"] = tarball({"Python-3.13.15/../../evil": "x"})
        self.write_config()
        self.serve()
        self.assertEqual(self.run_it(), 1)
        self.assertIn("unexpected path", self.err)
        self.assertEqual(list(self.base.rglob("evil")), [])

    def test_configure_is_made_again_and_is_newer(self):
        top = "Python-3.13.15"
        self.data["3.13.15"] = tarball({f"{top}/configure.ac": SOURCE, f"{top}/aclocal.m4": "",
                                        f"{top}/configure": "old\n", f"{top}/a.c": SOURCE})
        self.write_config()
        self.serve()
        (self.bin / "autoconf").write_text("#!/bin/sh\ncat configure.ac >configure\n"
                                           "echo ran >>\"$FAKE_APT-runs\"\n")
        (self.bin / "autoconf").chmod(0o755)
        self.series(one=patch_text("configure.ac", 3, "new"))
        self.works()
        made, source = self.tree() / "configure", self.tree() / "configure.ac"
        self.assertIn("new", made.read_text())
        self.assertGreater(made.stat().st_mtime_ns, source.stat().st_mtime_ns)
        before = made.stat().st_mtime_ns
        self.series(one=patch_text("configure.ac", 3, "new"), two=patch_text("a.c", 3, "x"))
        self.works()
        made = self.tree() / "configure"
        self.assertEqual(made.stat().st_mtime_ns, before)
        self.assertIn("new", made.read_text())
        self.assertEqual(Path(f"{self.apt}-runs").read_text(), "ran\n")

    def test_autoconf_missing(self):
        top = "Python-3.13.15"
        self.data["3.13.15"] = tarball({f"{top}/configure.ac": SOURCE, f"{top}/configure": "old"})
        self.write_config()
        self.serve()
        self.series(one=patch_text("configure.ac", 3, "new"))
        self.assertEqual(self.run_it(), 1)
        self.assertIn("make deps", self.err)

    def serve_generators(self, generator_source):
        """A release with instruction definitions, and these generators; each output says 'shipped'."""
        top = "Python-3.13.15"
        files = {f"{top}/a.c": SOURCE, f"{top}/{cases.BYTECODES}": SOURCE,
                 f"{top}/{cases.OPTIMIZER_BYTECODES}": SOURCE}
        for generator, output, _ in cases.GENERATED_CASES:
            files[f"{top}/Tools/cases_generator/{generator}"] = generator_source
            files[f"{top}/{output}"] = "shipped\n"
        self.data["3.13.15"] = tarball(files)
        self.write_config()
        self.serve()

    def generated(self):
        return {output: (self.tree() / output).read_text() for _, output, _ in cases.GENERATED_CASES}

    GENERATOR = ("import sys\n_, option, output, *inputs = sys.argv\nassert option == '-o'\n"
                 "text = ''.join(open(name).read() for name in inputs)\n"
                 "new = '#ifdef Py_RUST_CORE\\nnew\\n#endif\\n' if 'new' in text else ''\n"
                 "open(output, 'w').write('shipped\\n' + new)\n")

    def test_cases_are_generated_from_patched_definitions(self):
        self.serve_generators(self.GENERATOR)
        self.series(one=patch_text(cases.BYTECODES, 3, "new"))
        self.works()
        self.assertEqual(set(self.generated().values()), {"shipped\n#ifdef Py_RUST_CORE\nnew\n#endif\n"})
        stamp = json.loads((self.tree().parent / "stamp.json").read_text())
        self.assertLessEqual(set(self.generated()), set(stamp["written"]))
        self.assertEqual(list(self.tree().rglob("__pycache__")), [])

    def test_what_the_generators_leave_as_it_was_keeps_its_time(self):
        self.serve_generators(self.GENERATOR)
        self.series(one=patch_text(cases.OPTIMIZER_BYTECODES, 3, "other"))
        self.works()
        self.assertEqual(set(self.generated().values()), {"shipped\n"})
        stamp = json.loads((self.tree().parent / "stamp.json").read_text())
        self.assertEqual(stamp["written"], [cases.OPTIMIZER_BYTECODES])

    def test_what_is_generated_must_be_upstreams_without_the_core(self):
        self.serve_generators(self.GENERATOR.replace("#ifdef Py_RUST_CORE", "#ifdef NDEBUG"))
        self.series(one=patch_text(cases.BYTECODES, 3, "new"))
        self.assertEqual(self.run_it(), 1)
        self.assertIn("Include/opcode_ids.h, generated anew, is not upstream's", self.err)
        self.assert_no_litter()

    def test_generators_are_left_alone_without_need(self):
        self.serve_generators("raise SystemExit('not to be run')\n")
        self.series(one=patch_text("a.c", 3, "new"))
        self.works()
        self.assertEqual(set(self.generated().values()), {"shipped\n"})

    def test_a_generator_that_fails_stops_the_run(self):
        self.serve_generators("raise SystemExit('line 3 is no instruction')\n")
        self.series(one=patch_text(cases.BYTECODES, 3, "new"))
        self.assertEqual(self.run_it(), 1)
        self.assertIn("line 3 is no instruction", self.err)
        self.assert_no_litter()


class Overlay(Case):
    def setUp(self):
        super().setUp()
        self.serve()

    def time_of(self, name):
        return (self.tree() / name).stat().st_mtime_ns

    def test_files_are_added_as_they_are(self):
        self.add("new.h", "one\n")
        self.add("sub/deep/er/new.py", "two\n")
        self.add("sub/__pycache__/new.pyc", "made by whoever imported it here\n")
        self.works()
        self.assertEqual((self.tree() / "new.h").read_text(), "one\n")
        self.assertEqual((self.tree() / "sub" / "deep" / "er" / "new.py").read_text(), "two\n")
        self.assertFalse((self.tree() / "sub" / "__pycache__").exists())
        self.works()
        self.assertIn("up to date", self.out)

    def test_a_file_that_is_there_is_not_replaced(self):
        for name in ("a.c", "sub", "README/new.py"):
            with self.subTest(name):
                shutil.rmtree(self.overlay)
                self.add(name, "ours\n")
                self.assertEqual(self.run_it(), 1)
                self.assertIn(f"{self.overlay / name} cannot be added: CPython has a "
                              f"{name.split('/')[0]} of its own", self.err)
                self.assertFalse((self.dest / "current.json").exists())
                self.assert_no_litter()

    def test_a_file_that_a_patch_makes_is_not_replaced(self):
        self.series(one="--- /dev/null\n+++ b/made.h\n@@ -0,0 +1 @@\n+\n")
        self.add("made.h", "ours\n")
        self.assertEqual(self.run_it(), 1)
        self.assertIn("CPython has a made.h of its own", self.err)

    def test_a_refused_overlay_leaves_the_good_tree(self):
        self.add("new.h", "one\n")
        self.works()
        good = self.tree()
        self.add("a.c", "ours\n")
        self.assertEqual(self.run_it(), 1)
        self.assertEqual((good / "a.c").read_text(), SOURCE)
        self.assertEqual((good / "new.h").read_text(), "one\n")
        (self.overlay / "a.c").unlink()
        self.works()
        self.assertIn("up to date", self.out)

    def test_only_what_changed_is_newer(self):
        self.series(one=patch_text("a.c", 3, "patched"))
        self.add("changes.h", "one\n")
        self.add("stays.h", "one\n")
        self.works()
        names = ("changes.h", "stays.h", "a.c", "b.c")
        before = {name: self.time_of(name) for name in names}
        self.add("changes.h", "two\n")
        os.utime(self.overlay / "stays.h")
        self.works()
        self.assertNotIn("up to date", self.out)
        self.assertEqual(len(self.server.asked), 1)
        self.assertEqual((self.tree() / "changes.h").read_text(), "two\n")
        self.assertGreater(self.time_of("changes.h"), before["changes.h"])
        self.assertEqual({name: self.time_of(name) for name in names[1:]},
                         {name: before[name] for name in names[1:]})

    def test_a_file_renamed_or_taken_away(self):
        self.add("new.h", "one\n")
        self.works()
        (self.overlay / "new.h").rename(self.overlay / "other.h")
        self.works()
        self.assertFalse((self.tree() / "new.h").exists())
        self.assertEqual((self.tree() / "other.h").read_text(), "one\n")
        (self.overlay / "other.h").unlink()
        self.works()
        self.assertFalse((self.tree() / "other.h").exists())

    def test_a_missing_overlay_is_an_error(self):
        self.overlay.rmdir()
        self.assertEqual(self.run_it(), 1)
        self.assertIn("overlay is missing", self.err)


class TwoRuns(Case):
    def start(self):
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), "--dest", str(self.dest), "--config",
             str(self.config), "--patches", str(self.patches), "--overlay", str(self.overlay)],
            text=True,
            env={**os.environ, "FERRULE_CACHE": str(self.cache)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_the_second_waits_and_finds_all_done(self):
        self.serve()
        self.dest.mkdir()
        with open(self.dest / ".lock", "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            runs = [self.start(), self.start()]
            for run in runs:
                self.assertIn("waiting", run.stderr.readline())
        said = [run.communicate(timeout=60)[0] for run in runs]
        self.assertEqual([run.returncode for run in runs], [0, 0])
        self.assertEqual(sum("up to date" in text for text in said), 1)
        self.assertEqual(len(self.server.asked), 1)
        self.assert_no_litter()


class Pins(unittest.TestCase):
    def test_the_committed_pins_hold_together(self):
        pins = UpstreamPins(ROOT / "cpython" / "upstream.toml")
        for version, release in pins.releases.items():
            self.assertRegex(release["sha256"], "^[0-9a-f]{64}$")
            self.assertTrue(release["url"].endswith(f"/{version}/{release['file']}"))
            self.assertTrue(set(release["origins"]) <= set(choosing.ORIGINS))
        # What is built and tested with every change.
        self.assertEqual(pins.default[0], ("3.13.5", "debian"))
        for version, origin in pins.default:
            # Nobody gets a release with known holes without having asked for it.
            self.assertTrue(origin == "debian" or not pins.releases[version]["debian_fixes"])


if __name__ == "__main__":
    unittest.main()
