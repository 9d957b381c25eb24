"""cpython/fetch.py on small made-up tarballs: what serves them, and runs it."""

import contextlib
import hashlib
import http.server
import io
import json
import os
import shutil
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

from cpython import fetch

ROOT = Path(__file__).resolve().parents[2]

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
        self.base = Path(self.enterContext(tempfile.TemporaryDirectory()))
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

    def serve_release(self, files):
        """3.13.15 has these files, and no others."""
        self.data["3.13.15"] = tarball({f"Python-3.13.15/{name}": text for name, text in files.items()})
        self.write_config()
        self.serve()

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
