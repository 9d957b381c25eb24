#!/bin/sh
# Installs what building and testing Ferrule needs from the distribution.
# POSIX sh, since this runs before anything else is there.
set -u

RUST_WANTED=1.85

# CPython's own prerequisites: without these, modules are silently left out.
CPYTHON_PACKAGES="libssl-dev zlib1g-dev libbz2-dev libreadline-dev libsqlite3-dev
libffi-dev liblzma-dev libncurses-dev libgdbm-dev libgdbm-compat-dev uuid-dev
libexpat1-dev tk-dev"
BUILD_PACKAGES="python3 gcc libc6-dev make pkg-config autoconf patch xz-utils
ca-certificates"
# valgrind needs the C library's debug information to run anything.
TEST_PACKAGES="valgrind libc6-dbg gdb python3-venv"
# The smallest browser that there is (100 MB to fetch): the benchmarks' page is looked at in it. Where the
# distribution has none, that test is skipped.
BROWSER_PACKAGE="chromium-headless-shell"

usage() {
    cat <<'EOF'
usage: tools/deps.sh [--print] [--tests | --no-tests]

Installs what is missing to build and test Ferrule (Debian 12 or newer, and
what derives from it).  As root it installs; otherwise it prints the command to
run.  Where nothing is missing it does nothing.

  --print      only print the missing packages, one a line
  --tests      the tools of the tests too: valgrind, gdb, a browser (the default)
  --no-tests   without them
  -h, --help   this text

exit codes: 0 all is there, 1 something is missing, 2 wrong usage
EOF
}

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# ---- versions --------------------------------------------------------------

# version_at_least 1.96.0 1.85
version_at_least() {
    awk -v a="$1" -v b="$2" 'BEGIN {
        split(a, x, "."); split(b, y, ".")
        for (i = 1; i <= 3; i++) {
            if (x[i] + 0 > y[i] + 0) exit 0
            if (x[i] + 0 < y[i] + 0) exit 1
        }
        exit 0 }'
}

rust_is_fine() {
    have rustc && have cargo || return 1
    rust_found=$(rustc --version 2>/dev/null | awk '{ print $2 }')
    [ -n "$rust_found" ] && version_at_least "$rust_found" "$RUST_WANTED"
}

rust_llvm() { rustc -vV 2>/dev/null | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p'; }

# ---- what the distribution has ---------------------------------------------

installed() {
    case $(dpkg-query -W -f '${db:Status-Status} ' "$1" 2>/dev/null) in
        *"installed "*) return 0 ;;
    esac
    return 1
}

# One call for the whole list: this is what makes the usual case fast.
missing_of() {
    there=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
        sed -n 's/^installed //p')
    for package in "$@"; do
        printf '%s\n' "$there" | grep -qxF "$package" || say "$package"
    done
}

browser_is_there() { have chromium-headless-shell || have chromium; }

# The version apt would install, without epoch; nothing where there is none.
candidate() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null |
        sed -n 's/^  Candidate: //p' | grep -v '^(none)$' | sed 's/^[0-9]*://'
}

# The Rust packages to install, or nothing where none is new enough.
rust_packages() {
    for flavour in "" -web; do
        version=$(candidate "rustc$flavour")
        if [ -n "$version" ] && version_at_least "$version" "$RUST_WANTED"; then
            say "rustc$flavour"
            say "cargo$flavour"
            return
        fi
    done
}

# The LLVM that a Rust package is linked with, from what it depends on.
package_llvm() {
    LC_ALL=C apt-cache depends --recurse --no-recommends --no-suggests \
        --no-conflicts --no-breaks --no-replaces --no-enhances "$1" 2>/dev/null |
        sed -n 's/.*libllvm\([0-9][0-9]*\).*/\1/p' | sort -n | tail -n 1
}

# The newest LLVM of which both clang and lld are there to install.
newest_llvm() {
    for major in $(LC_ALL=C apt-cache pkgnames clang- 2>/dev/null |
        sed -n 's/^clang-\([0-9][0-9]*\)$/\1/p' | sort -rn); do
        if [ -n "$(candidate "clang-$major")" ] && [ -n "$(candidate "lld-$major")" ]; then
            say "$major"
            return
        fi
    done
}

llvm_packages() { say "clang-$1 lld-$1 llvm-$1 libclang-$1-dev libclang-rt-$1-dev"; }

# ---- deciding --------------------------------------------------------------

# Sets $missing and $remarks.
resolve() {
    remarks=
    wanted="$BUILD_PACKAGES $CPYTHON_PACKAGES"
    if [ "$tests" = yes ]; then
        wanted="$wanted $TEST_PACKAGES"
        browser_is_there || [ -z "$(candidate "$BROWSER_PACKAGE")" ] || wanted="$wanted $BROWSER_PACKAGE"
    fi
    if rust_is_fine; then
        llvm=$(rust_llvm)
    else
        rust=$(rust_packages)
        llvm=
        if [ -n "$rust" ]; then
            wanted="$wanted $rust"
            llvm=$(package_llvm "${rust%%
*}")
        else
            no_rust=yes
        fi
    fi
    resolve_llvm
    # Word splitting is what makes a list of the names.
    # shellcheck disable=SC2086
    missing=$(missing_of $wanted)
}

resolve_llvm() {
    if [ -n "$llvm" ] && { installed "clang-$llvm" || [ -n "$(candidate "clang-$llvm")" ]; }; then
        wanted="$wanted $(llvm_packages "$llvm")"
        return
    fi
    newest=$(newest_llvm)
    [ -n "$newest" ] || return
    wanted="$wanted $(llvm_packages "$newest")"
    [ -n "$llvm" ] && remarks="note: rustc is of LLVM $llvm, the newest clang here is $newest: \
the cross-language LTO of \`make release\` will be refused (a plain build works)."
}

no_rust_message() {
    warn "Rust $RUST_WANTED or newer is needed, and the distribution has none new enough" \
        "${rust_found:+(found on PATH: $rust_found)}"
    warn "Get it from https://rustup.rs, put its rustc and cargo on PATH, and run again."
}

# ---- installing ------------------------------------------------------------

# apt does not wait for the lock of its lists by itself.
update_lists() {
    tries=0
    while :; do
        said=$(LC_ALL=C apt-get update 2>&1) && return 0
        tries=$((tries + 1))
        case $said in
            *"Could not get lock"*) [ "$tries" -lt 30 ] || break ;;
            *) break ;;
        esac
        [ "$tries" -eq 1 ] && warn "waiting for another apt to finish"
        sleep 5
    done
    warn "warning: apt-get update failed; going on with the package lists that are there:"
    printf '%s\n' "$said" | grep '^[EW]:' | tail -n 3 >&2
}

install_missing() {
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y \
        --no-install-recommends $missing && return 0
    warn "error: apt-get could not install: $(echo $missing)"
    return 1
}

# For a user who is not root: the one command to run.
tell_command() {
    warn "Something is missing; run this as root, then continue:"
    if [ -z "$(candidate gcc)" ]; then
        # No package lists yet, so nothing can be chosen before they are there.
        say "sh $0"
        return
    fi
    # shellcheck disable=SC2086
    [ -z "$missing" ] ||
        say "apt-get update && apt-get install -y --no-install-recommends" $missing
    [ "$no_rust" = no ] || no_rust_message
}

# Elsewhere only commands can be looked for, and the names of packages differ.
other_system() {
    absent=
    for tool in python3 cc make pkg-config autoconf patch xz rustc cargo clang; do
        have "$tool" || absent="$absent $tool"
    done
    if [ "$print" = yes ]; then
        for tool in $absent; do say "$tool"; done
        return 0
    fi
    if [ -z "$absent" ] && rust_is_fine; then
        say "deps: no apt here; the tools are there (not checked: the libraries of CPython)"
        return 0
    fi
    warn "This system has no apt-get, so nothing is installed. Needed, by other means:"
    warn "  tools:    python3 >= 3.11, C compiler, make, pkg-config, autoconf, patch, xz"
    warn "  Rust:     rustc and cargo >= $RUST_WANTED; clang, lld, llvm, libclang of its LLVM"
    warn "  headers:  openssl zlib bzip2 readline sqlite3 libffi xz ncurses gdbm uuid expat tk"
    [ -z "$absent" ] || warn "  missing on PATH:$absent"
    return 1
}

main() {
    print=no tests=yes no_rust=no rust_found=
    for argument in "$@"; do
        case $argument in
            --print) print=yes ;;
            --tests) tests=yes ;;
            --no-tests) tests=no ;;
            -h | --help) usage; exit 0 ;;
            *) usage >&2; exit 2 ;;
        esac
    done
    if ! have apt-get || ! have dpkg-query; then
        other_system
        exit
    fi
    resolve
    if [ "$print" = yes ]; then
        [ -z "$missing" ] || say "$missing"
        [ "$no_rust" = no ] || no_rust_message
        exit 0
    fi
    if [ -z "$missing" ] && [ "$no_rust" = no ]; then
        say "deps: all there${remarks:+; $remarks}"
        exit 0
    fi
    if [ "$(id -u)" != 0 ]; then
        tell_command
        exit 1
    fi
    update_lists
    # On a fresh machine only now is known what there is to choose from.
    no_rust=no
    resolve
    [ -z "$missing" ] || install_missing || exit 1
    if [ "$no_rust" = yes ]; then
        no_rust_message
        exit 1
    fi
    if ! rust_is_fine; then
        warn "error: Rust is installed, but rustc on PATH is ${rust_found:-absent}:" \
            "put /usr/bin before it on PATH, or update it (rustup update)."
        exit 1
    fi
    say "deps: installed${remarks:+; $remarks}"
}

main "$@"
