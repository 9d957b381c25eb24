"""What `make` builds of clients/, and what `make install` installs of it."""

from test_clone import Case

# Says where its extension modules have their names from.
INTERPRETER = "#!/bin/sh\nprintf .fake.so\nexit\n"
CARGO = """#!/bin/sh
[ "$1" = build ] || { echo cargo 1.95; exit; }
echo "$*" >>$FAKE/built
echo "$PYO3_PYTHON $CARGO_ENCODED_RUSTFLAGS $RUSTFLAGS" >>$FAKE/built-with
[ ! -e $FAKE/fails ] || { echo 'error: it does not compile'; exit 101; }
mkdir -p build/cargo-clients/x/extension
echo library >build/cargo-clients/x/extension/libferrule_profiler.so
"""
LIBRARY = "/opt/x/lib/python3.13/"


class Clients(Case):
    def setUp(self):
        super().setUp()
        for name in ("clients/profiler/pyproject.toml", "clients/profiler/Cargo.toml", "clients/debugger/pyproject.toml",
                     "clients/profiler/python/ferrule_profiler/__init__.py",
                     "clients/profiler/python/ferrule_profiler/part/page.html",
                     "clients/profiler/python/ferrule_profiler/__pycache__/old.pyc",
                     "clients/debugger/src/ferrule_debugger/__init__.py", "rust-core/framehook-sdk/lib.rs", "Cargo.toml", "Cargo.lock"):
            (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
            (self.clone / name).write_text(f"{name}\n")
        (self.clone / "clients/profiler/pyproject.toml").write_text('[tool.maturin]\nprofile = "extension"\n')
        (self.fake / "source.c").write_text(INTERPRETER)
        self.program(self.bin / "cargo", CARGO)
        self.configure("--prefix=/opt/x")

    def built(self):
        file = self.fake / "built"
        return file.read_text().splitlines() if file.exists() else []

    def test_they_are_installed_in_the_library(self):
        self.make(RUSTFLAGS="--nonsense")
        self.without("rustc", "cargo")
        self.run_in(self.clone, "sh", "-c", "umask 077; make install DESTDIR=../d")
        library = self.base / f"d{LIBRARY}"
        found = sorted(path.relative_to(library).as_posix() for path in library.rglob("*") if path.is_file())
        self.assertEqual(found, ["ferrule_debugger/__init__.py", "ferrule_profiler/__init__.py",
                                 "ferrule_profiler/_core.fake.so", "ferrule_profiler/part/page.html"])
        self.assertEqual(self.installed(LIBRARY + "ferrule_profiler/_core.fake.so"), "library\n")
        for path in (library, *library.rglob("*"), *library.parents[:3]):
            self.assertEqual(path.stat().st_mode & 0o044, 0o044, path)
        python, flags = (self.fake / "built-with").read_text().split(" ", 1)
        self.assertEqual(python, str(self.clone / "build/ferrule/python"))
        # What is built does not say where, and is of no flags that are for others.
        self.assertIn(f"--remap-path-prefix={self.clone}=ferrule", flags)
        self.assertNotIn("--nonsense", flags)

    def test_they_are_built_again_when_their_source_has_changed_and_not_otherwise(self):
        self.make()
        self.make()
        self.assertEqual(len(self.built()), 1)
        for name in ("clients/profiler/python/ferrule_profiler/__init__.py", "rust-core/framehook-sdk/lib.rs"):
            before = len(self.built())
            (self.clone / name).write_text("other\n")
            self.make()
            self.assertEqual(len(self.built()), before + 1, name)
        self.make("install", "DESTDIR=../d")
        self.assertEqual(self.installed(LIBRARY + "ferrule_profiler/__init__.py"), "other\n")

    def test_what_an_earlier_release_had_is_gone(self):
        old = self.base / f"d{LIBRARY}ferrule_debugger/old.py"
        old.parent.mkdir(parents=True)
        old.write_text("")
        self.make()
        self.make("altinstall", "DESTDIR=../d")
        self.assertEqual([path.name for path in old.parent.iterdir()], ["__init__.py"])

    def test_stock_and_the_builds_that_are_measured_have_none(self):
        for variant in ("stock", "release", "debug"):
            self.make(variant)
            self.make("install", f"VARIANT={variant}", "DESTDIR=../d")
        self.configure("--prefix=/opt/x", "--without-rust-core")
        self.make()
        self.make("install", "DESTDIR=../d")
        self.assertEqual((self.built(), (self.base / f"d{LIBRARY}").exists()), ([], False))

    def test_a_build_for_another_machine_has_none(self):
        self.configure("--prefix=/opt/x", "--host=riscv64-linux-gnu", "CC=gcc")
        self.make()
        self.make("install", "DESTDIR=../d")
        self.assertEqual((self.built(), (self.base / f"d{LIBRARY}").exists()), ([], False))

    def test_one_that_does_not_build_is_named_and_nothing_is_installed(self):
        (self.fake / "fails").write_text("")
        said = self.make(status=2)
        self.assertIn("ferrule: building ferrule_profiler failed: error: it does not compile", said)
        said = self.make("install", "DESTDIR=../d", status=2)
        self.assertIn("the clients of build/ferrule are not built: run `make` first", said)
        self.assertFalse((self.base / "d").exists())
        (self.fake / "fails").unlink()
        self.make()
        self.make("install", "DESTDIR=../d")


del Case        # or its module's tests would run here too
