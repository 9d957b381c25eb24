"""What the user chose with ./configure: one record, for every make after it, until it is chosen again."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools import places
from tools.errors import BuildError
from tools.variants import VARIANTS

# Which release is built.
RELEASE_VARIABLES = ("CPYTHON_VERSION", "CPYTHON_TARBALL", "CPYTHON_DEBIAN", "CPYTHON_SERIES")
# Which of them are files.
RELEASE_FILES = ("CPYTHON_TARBALL", "CPYTHON_DEBIAN")
# For packages: a profile that was made before, and where on sys.path that lies which is not in CPython's library.
PACKAGE_VARIABLES = ("PROFILE_USE", "FERRULE_PATH")
# Which programs build it, and what a profile comes from: the same for every variant.
TOOL_VARIABLES = ("CC", "CXX", "CPP", "AR", "RANLIB", "LLVM_AR", "LLVM_PROFDATA", "PROFILE_TASK", "MACHDEP",
                  "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR")
FLAG_VARIABLES = ("CPPFLAGS", "CFLAGS", "CFLAGS_NODIST", "LDFLAGS", "LDFLAGS_NODIST", "LIBS")
# Whose headers and libraries are compiled and linked against, by the compiler that is found: an oldest glibc, say.
SYSROOT = "SYSROOT"
# What configure takes from the environment as well as from its command line.
CONFIGURE_VARIABLES = (*TOOL_VARIABLES, *FLAG_VARIABLES, *PACKAGE_VARIABLES, SYSROOT)
# What is said to each command, and never kept.
COMMAND_VARIABLES = ("FERRULE_CACHE", "PYTHON3", "V")
INSTALL_VARIABLES = ("DESTDIR", "VARIANT")
PLACES = (r"--?(?:(?:exec[-_])?prefix|(?:bin|sbin|lib|libexec|include|oldinclude|data|dataroot|man|info|doc|locale|sysconf"
          r"|sharedstate|localstate|runstate)dir)")


@dataclass
class Choices:
    """Flags of configure, and variables: the release, the tools, the compiler's flags."""

    flags: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    def flags_for(self, variant: str) -> list[str]:
        """Of a variant that is measured the user says where it is installed, and no more."""
        if not VARIANTS[variant].measured:
            return self.flags
        return [flag for flag in self.flags if re.match(PLACES + "=", flag)]

    def variables_for(self, variant: str) -> dict[str, str]:
        """The arguments of configure; the release is not one of them."""
        wanted = TOOL_VARIABLES if VARIANTS[variant].measured else tuple(
            name for name in self.variables if name not in RELEASE_VARIABLES)
        return {name: value for name, value in self.variables.items() if name in wanted}

    def described(self) -> str:
        return command(self.variables, self.flags)


def command(variables: Mapping[str, str], flags: list[str]) -> str:
    """What to type: an assignment that is quoted as a whole would be a command's name to a shell."""
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), shlex.join(["./configure", *flags])])


def record() -> Path:
    return places.BUILD / "choices.json"


def of(flags: list[str], environment: Mapping[str, str]) -> Choices:
    """What `./configure FLAGS` chooses in this environment. A variable among the flags wins."""
    words: list[str] = []
    variables = from_environment(environment)
    for flag in flags:
        name, equals, value = flag.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            check_kept(name, value)
            variables[name] = value
        elif words and re.fullmatch(PLACES, words[-1]):
            # `--prefix DIR` is two words for configure, and one choice.
            words[-1] += f"={flag}"
        else:
            words.append(flag)
    for word in words:
        check_place(word)
    return Choices(words, said(variables))


def check_kept(name: str, value: str) -> None:
    if name in INSTALL_VARIABLES:
        raise BuildError(f"{name}= is not for ./configure: say it to make, as in `make install {name}={value}`")
    if name in COMMAND_VARIABLES:
        raise BuildError(f"{name}= is not kept: say it before each command, as in `{name}={value} ./configure` and "
                         f"`{name}={value} make`")


def check_place(flag: str) -> None:
    name, _, value = flag.partition("=")
    odd = re.search(r"[\s'\"]", value) if re.fullmatch(PLACES, name) else None
    if odd:
        raise BuildError(f"{name} has {odd[0]!r} in it, which CPython's Makefile cannot install to: {value}\n"
                         f"  name a directory without it")


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return said({name: environment.get(name, "") for name in RELEASE_VARIABLES + CONFIGURE_VARIABLES})


def said(variables: dict[str, str]) -> dict[str, str]:
    """Without those that are empty: they say that there is none, as configure takes it too."""
    found = {name: value for name, value in variables.items() if value.strip()}
    for name in {*RELEASE_FILES, "PROFILE_USE", SYSROOT} & set(found):
        found[name] = str(Path(found[name]).absolute())
    return found


def read() -> Choices | None:
    """What was chosen, or None where nothing was yet."""
    try:
        found = Choices(**json.loads(record().read_text()))
        if not (isinstance(found.flags, list) and isinstance(found.variables, dict)):
            raise ValueError
        return found
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise BuildError(f"{record()} is damaged: run ./configure with the flags that you want") from None


def write(chosen: Choices) -> None:
    temporary = record().with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(chosen), indent=2) + "\n")
    temporary.replace(record())


def forget() -> None:
    record().unlink(missing_ok=True)


def for_make(environment: Mapping[str, str]) -> Choices:
    """The choices that a `make` works with.

    The first one of a clone chooses, if nothing else has. After it, another compiler or release for one make alone
    would be forgotten by the next, which would then build, or install, half of each.
    """
    chosen = read()
    now = from_environment(environment)
    if chosen is None:
        return Choices([], now)
    other = [name for name, value in now.items() if chosen.variables.get(name) != value]
    if other:
        name = other[0]
        was = f"is {chosen.variables[name]!r}" if name in chosen.variables else "is not set"
        again = command({**chosen.variables, **{name: now[name] for name in other}}, chosen.flags)
        raise BuildError(f"{name} is {now[name]!r} for this make, and {was} in what this clone is configured for.\n"
                         f"  to choose it:      {again}\n"
                         f"  to build as it is: make without it; where the shell has it, env "
                         f"{' '.join(f'-u {name}' for name in other)} make ...")
    return chosen
