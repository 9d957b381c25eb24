"""The patched tree: unpacked, patched, completed, swapped in whole."""

import fnmatch
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from tools import patches

from .cases import BYTECODES, OPTIMIZER_BYTECODES, regenerate_cases
from .files import read_json, remove, same, temporary, write_atomically
from .given import debian_files
from .messages import FetchError, Progress, note


def unpack(tarball, target, expected):
    """Unpack a tarball that holds the one directory `expected`; a directory is what one was unpacked to."""
    if tarball.is_dir():
        shutil.copytree(tarball, target / expected, symlinks=True)
        return
    progress = Progress(f"unpacking {tarball.name}")
    size = tarball.stat().st_size
    safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    try:
        with tarball.open("rb") as file, tarfile.open(fileobj=file, mode="r:xz") as tar:
            for member in tar:
                top, *rest = member.name.split("/")
                if top != expected or ".." in rest:
                    raise FetchError(f"{tarball}: unexpected path {member.name}")
                # Otherwise root would hand the files to the user that packed them.
                member.uid, member.gid, member.uname, member.gname = \
                    os.getuid(), os.getgid(), "", ""
                tar.extract(member, target, **safe)
                progress(file.tell(), size)
    except (tarfile.TarError, EOFError) as error:
        raise FetchError(f"{tarball} cannot be unpacked: {error}") from None
    finally:
        progress.end()


def chosen_fixes(fixes, patterns, target):
    """Take the fixes wanted out of Debian's packaging; their paths, in the series' order."""
    chosen = []
    with debian_files(fixes) as read:
        for line in read("patches/series").decode().splitlines():
            name = line.split("#", 1)[0].strip()
            if name and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                path = target / Path(name).name
                path.write_bytes(read(f"patches/{name}"))
                chosen.append(path)
    if not chosen:
        raise FetchError(f"{fixes.name} holds none of the fixes that "
                         "cpython/upstream.toml names")
    return chosen


def regenerate_configure(tree, old):
    """configure from the patched configure.ac, and nothing else."""
    inputs = ("configure.ac", "aclocal.m4")
    if old and all(same(tree / name, old / name) for name in inputs):
        shutil.copyfile(old / "configure", tree / "configure")
        return
    if shutil.which("autoconf") is None:
        raise FetchError("configure.ac is patched, and autoconf is missing: run `make deps`")
    note("running autoconf")
    run = subprocess.run(["autoconf", "--force"], cwd=tree, stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, errors="replace")
    remove(tree / "autom4te.cache")
    if run.returncode != 0:
        raise FetchError(f"autoconf failed in {tree}:\n{run.stderr.strip()[-1500:]}")


def overlay_files(overlay):
    """The files that are added to the tree as they are, as paths relative to the overlay."""
    if not overlay.is_dir():
        raise FetchError(f"{overlay} is missing: it holds the files to add to the tree "
                         "(an empty directory means none)")
    found = (path.relative_to(overlay) for path in overlay.rglob("*") if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts)


def overlay_digest(overlay):
    """Changes whenever a tree would have to get other files."""
    total = hashlib.sha256()
    for name in overlay_files(overlay):
        content = (overlay / name).read_bytes()
        total.update(f"{name.as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


def add_overlay(tree, overlay):
    """Copy the overlay's files into the patched tree; return their names.

    One that is there already is an error: what is upstream's is changed by
    patches, where the change can be seen.
    """
    names = overlay_files(overlay)
    for name in names:
        taken = next((p for p in (name, *name.parents[:-1])
                      if os.path.lexists(tree / p) and (p == name or not (tree / p).is_dir())), None)
        if taken:
            raise FetchError(f"{overlay / name} cannot be added: CPython has a {taken} of its own "
                             "(an overlay only adds files; a patch changes them)")
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(overlay / name, tree / name)
    return [name.as_posix() for name in names]


def restore_times(tree, written, old, old_written):
    """Let make see as changed what differs from the tree before, and only that.

    Patching and copying give each file the present time, also where the result
    is as before; and a file that is patched no more comes back with the old
    time of the tarball.
    """
    names = dict.fromkeys([*written, *old_written])
    for name in names:
        path = tree / name
        if not path.exists():
            continue
        if old and same(path, old / name):
            before = (old / name).stat()
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        else:
            os.utime(path)
    # Else a build would want to make configure again.
    source, made = tree / "configure.ac", tree / "configure"
    if "configure" in names and made.stat().st_mtime_ns <= source.stat().st_mtime_ns:
        stamp = source.stat().st_mtime_ns + 1_000_000
        os.utime(made, ns=(stamp, stamp))


def make_tree(source, pins, directory, overlay, dest):
    """Build <dest>/<version>-<origin>/ anew and swap it in whole; return its stamp."""
    version = source.release["version"]
    place, top = dest / source.name, f"Python-{version}"
    before = read_json(place / "stamp.json") or {}
    old = place / top if before else None
    with temporary(dest) as work:
        fresh = work / "new"
        tree = fresh / top
        fresh.mkdir()
        unpack(source.tarball, fresh, top)
        fixes = chosen_fixes(source.fixes, pins.fixes, work) if source.fixes else []
        progress = Progress(f"patching {top}")
        try:
            written = patches.apply_list(tree, fixes, progress)
            written += patches.apply_series(tree, directory, version, progress)
        except patches.PatchError as error:
            failed = dest / f"{source.name}.failed"
            remove(failed)
            fresh.replace(failed)
            raise FetchError(f"{error}\nThe half patched tree is left in {failed} "
                             "to look at.") from None
        finally:
            progress.end()
        if "configure.ac" in written:
            regenerate_configure(tree, old)
            written.append("configure")
        if {BYTECODES, OPTIMIZER_BYTECODES} & set(written):
            written += regenerate_cases(tree, written)
        written += add_overlay(tree, overlay)
        written = list(dict.fromkeys(written))
        restore_times(tree, written, old, before.get("written", []))
        stamp = {"version": version, "origin": source.origin,
                 "debian_revision": source.revision,
                 "fixes": [path.name for path in fixes],
                 "tarball_sha256": source.release["sha256"],
                 "tarball": str(source.tarball),
                 "patches_sha256": patches.digest(directory, version),
                 "overlay_sha256": overlay_digest(overlay),
                 "fixes_sha256": source.fixes_sha256(),
                 "fixes_chosen": pins.fixes if source.fixes else [],
                 "series": "debian" if source.fixes and pins.fixes == ["*"] else "fixes",
                 "written": written}
        write_atomically(fresh / "stamp.json", json.dumps(stamp, indent=2) + "\n")
        # A crash between the two leaves no tree, and the next run makes it.
        if place.exists():
            place.replace(work / "old")
        fresh.replace(place)
    remove(dest / f"{source.name}.failed")
    return stamp


def finished(release, origin, pins, directory, overlay, dest, fixed=False):
    """The stamp of a tree that is as the pins, patches and overlay want it, else None.

    Needs neither the cache nor a network, so that a finished tree stays usable.
    """
    name = f"{release['version']}-{origin}"
    stamp = read_json(dest / name / "stamp.json")
    if stamp is None or not (dest / name / f"Python-{release['version']}").is_dir():
        return None
    wanted = {"tarball_sha256": release["sha256"],
              "patches_sha256": patches.digest(directory, release["version"]),
              "overlay_sha256": overlay_digest(overlay),
              "fixes_chosen": pins.fixes if fixed or origin == "debian" else []}
    same = {"fixes", "series"} <= stamp.keys() and all(stamp.get(key) == value for key, value in wanted.items())
    return stamp if same else None


def publish(stamp, dest, root, default):
    """current.json says which tree is meant; the builds read it. Return the tree's path, from the project's root where it is below."""
    tree = dest / f"{stamp['version']}-{stamp['origin']}" / f"Python-{stamp['version']}"
    tree = tree.resolve()
    path = str(tree.relative_to(root)) if tree.is_relative_to(root) else str(tree)
    keys = ("version", "origin", "debian_revision", "fixes", "series", "tarball_sha256")
    current = {key: stamp[key] for key in keys}
    current |= {"source": path, "patches_sha256": stamp["patches_sha256"]}
    if read_json(dest / "current.json") != current:
        write_atomically(dest / "current.json", json.dumps(current, indent=2) + "\n")
    chosen = {"version": stamp["version"], "origin": stamp["origin"]}
    if default and read_json(dest / "default.json") != chosen:
        write_atomically(dest / "default.json", json.dumps(chosen, indent=2) + "\n")
    return path
