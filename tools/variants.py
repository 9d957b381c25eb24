"""The interpreters that are built here, as data: what each is for and how it differs."""

from dataclasses import dataclass

STOCK = "--without-rust-core"
# CPython 3.13 calls most functions of its types through pointers of other types. It is undefined, everywhere, and meant.
MISTYPED_CALLS = "BASECFLAGS=-fno-sanitize=function"


@dataclass(frozen=True)
class Variant:
    """One build, in build/NAME."""

    what: str
    flags: tuple[str, ...] = ()
    # Measured against another, or published: made of these flags alone, and of none that the user chose.
    measured: bool = False
    # Each function begins a cache line.
    aligned: bool = False
    # The clients of frame hooks are built for it, and installed with it, if it has the Rust frame core.
    with_clients: bool = False


VARIANTS = {
    "ferrule": Variant("the Rust frame core, and the flags of ./configure", with_clients=True),
    "stock": Variant("the same tree and flags, --without-rust-core", (STOCK,)),
    "release": Variant("ThinLTO across C and Rust", ("--with-lto=thin", "--with-cross-lto=yes"), True, True),
    "stock-release": Variant("ThinLTO, --without-rust-core", (STOCK, "--with-lto=thin"), True, True),
    "release-untuned": Variant("the Rust frame core alone, without the lines of C that are faster with any",
                               ("--with-lto=thin", "--with-cross-lto=yes", "--with-frame-tuning=no"), True, True),
    "stock-tuned": Variant("stock with these lines of C, and nothing of Rust",
                           (STOCK, "--with-lto=thin", "--with-frame-tuning"), True, True),
    "pgo": Variant("as a distribution builds it: profile-guided, LTO across C and Rust",
                   ("--enable-optimizations", "--with-lto=full"), True, with_clients=True),
    "stock-pgo": Variant("the same, --without-rust-core", (STOCK, "--enable-optimizations", "--with-lto=full"), True),
    "debug": Variant("CPython's own checks", ("--with-pydebug",)),
    "trace-refs": Variant("the same, and a list of all objects", ("--with-pydebug", "--with-trace-refs")),
    "free-threaded": Variant("without the GIL", ("--disable-gil",), True, with_clients=True),
    "stock-free-threaded": Variant("the same, --without-rust-core", (STOCK, "--disable-gil"), True),
    "asan": Variant("C under AddressSanitizer and UndefinedBehaviorSanitizer; Rust under the first with RUSTC_BOOTSTRAP=1, as ci/asan-hooks does it",
                    ("--with-address-sanitizer", "--with-undefined-behavior-sanitizer", MISTYPED_CALLS)),
    "tsan": Variant("free-threaded, C under ThreadSanitizer; Rust as above, for ci/tsan-hooks",
                    ("--disable-gil", "--with-thread-sanitizer")),
}
# In the builds that are measured against each other each function begins a cache line, so that one that is the same in both
# lies in its lines in the same way: at the linker's own places a garbage collection took from 0.94 to 1.14 of the other
# build's time, with the very same instructions. And loops begin half a line: the six instructions that clear a
# frame's locals took 1.5 times as long where they reached into the next line. The linker gets the option, as it makes the machine
# code of C and of Rust: an option for the C compiler alone left Rust's functions where they fell.
ALIGNED = ("-align-all-functions=6", "-align-loops=32")
# Part of the profile-guided interpreters instead of files to import, as Debian has it. They need no library, so that
# libpython.a needs none for them either. Not those of HACL*, whose names would be in everybody's way in libpython.a:
# hashlib takes OpenSSL's.
BUILT_IN = frozenset((
    "array", "cmath", "fcntl", "grp", "math", "select", "syslog", "unicodedata", "_bisect", "_csv", "_datetime",
    "_elementtree", "_heapq", "_json", "_opcode", "_pickle", "_posixsubprocess", "_random", "_socket", "_statistics",
    "_struct",
))
# What Debian's interpreter has built in besides: its library has no files of them.
DEBIAN_BUILT_IN = frozenset(("_blake2", "_md5", "_sha1", "_sha2", "_sha3", "binascii", "pyexpat", "zlib"))
# The profile comes from nearly all of CPython's tests, as Debian's does, instead of the 43 files that `--pgo` picks, and from the programs
# of packaging/profile: tests run much of the interpreter once, and programs run little of it often.
# Left out: tests of what is around the interpreter, tests that fail with other libraries or take long.
TRAINING_WITHOUT = (
    "test_asyncio", "test_c_locale_coercion", "test_cext", "test_cmd_line_script", "test_concurrent_futures",
    "test_cppext", "test_ctypes", "test_dbm_dumb", "test_dbm_ndbm", "test_embed", "test_ensurepip",
    "test_external_inspection", "test_faulthandler", "test_ftplib", "test_gdb", "test_httplib", "test_idle", "test_imaplib",
    "test_ioctl", "test_multiprocessing_fork", "test_multiprocessing_forkserver", "test_multiprocessing_spawn",
    "test_peg_generator", "test_perf_profiler", "test_poplib", "test_pydoc", "test_pyrepl", "test_regrtest", "test_repl",
    "test_signal", "test_socket", "test_socketserver", "test_ssl", "test_subprocess", "test_thread", "test_threadsignals",
    "test_threading", "test_threading_local", "test_tools", "test_venv", "test_zipimport_support",
)
# A test that fails (2) does not stop the build: what it ran is in the profile all the same.
TRAINING = f"-m test --pgo-extended -j0 -unone,decimal --timeout=1200 -x {' '.join(TRAINING_WITHOUT)}"
TRAINING_MAY_FAIL = " || test $$? -eq 2"
