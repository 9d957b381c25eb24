"""Packages and sources of a release of Debian, through apt with lists of its own: verified by Debian's signature, and no root needed."""

import os
import re
import shutil
import subprocess
from functools import cmp_to_key
from pathlib import Path

from cpython.upstream.debian import apt_environment, apt_settings, mirrors, run_apt, stanza
from cpython.upstream.messages import Unreachable
from tools import progress
from tools.errors import BuildError

# Releases under development, of which the security archive has nothing.
WITHOUT_SECURITY = ("sid", "experimental")


class Suite:
    """A release of Debian with its security archive, where it has one. Its lists are in `place`."""

    def __init__(self, name: str, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        settings = apt_settings(run_apt(["apt-config", "dump"], place, {**os.environ, "LC_ALL": "C"}))
        archive, security = mirrors(settings)
        if not archive:
            raise BuildError("apt's configuration names no archive of Debian's")
        uri, key = archive[0]
        stanzas = [stanza(uri, name, key)]
        if name not in WITHOUT_SECURITY:
            stanzas += [stanza(safe, f"{name}-security", other) for safe, other in security]
        self.place = place
        self.environment = apt_environment(place, settings, [text.replace("Types: deb-src", "Types: deb deb-src") for text in stanzas])
        self.run("apt-get", "update")

    def run(self, *words: str, place: Path | None = None) -> str:
        return run_apt(list(words), place or self.place, self.environment)

    def unpack(self, packages: list[str], target: Path) -> list[str]:
        """The files of these packages, without their dependencies. Returns the names with versions."""
        got = self.place / "packages"
        got.mkdir(exist_ok=True)
        for old in got.glob("*.deb"):
            old.unlink()
        self.run("apt-get", "download", *packages, place=got)
        target.mkdir(parents=True, exist_ok=True)
        found = sorted(got.glob("*.deb"))
        for package in found:
            self.run("dpkg-deb", "--extract", str(package), str(target))
        return [self.run("dpkg-deb", "--show", "--showformat=${Package} ${Version}", str(package)) for package in found]

    def source(self, name: str, target: Path) -> str:
        """The source of a package with Debian's patches, in `target`. Returns its version."""
        got = self.place / "source" / name
        description = self.newest(name, got)
        self.run("dpkg-source", "--extract", str(description), str(target), place=got)
        return next(line.removeprefix("Version: ") for line in description.read_text().splitlines() if line.startswith("Version: "))

    def newest(self, name: str, got: Path) -> Path:
        """Downloads the newest version whose files are there: a mirror may list one before or after it has it."""
        listed = re.findall(r"^Version: (\S+)$", self.run("apt-cache", "showsrc", "--only-source", name), re.M)
        errors = []
        for version in sorted(set(listed), key=cmp_to_key(compared), reverse=True):
            shutil.rmtree(got, ignore_errors=True)
            got.mkdir(parents=True)
            try:
                self.run("apt-get", "source", "--download-only", "--only-source", f"{name}={version}", place=got)
            except Unreachable as error:
                errors.append(str(error))
                continue
            if errors:
                progress.say(f"warning: {name} {version} is not the newest that Debian lists: {errors[0]}")
            return next(got.glob("*.dsc"))
        raise Unreachable("; ".join(errors) or f"Debian has no source package {name}")


def compared(one: str, other: str) -> int:
    return 1 if subprocess.run(["dpkg", "--compare-versions", one, "gt", other]).returncode == 0 else -1
