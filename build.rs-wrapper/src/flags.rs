//! What of a C compiler's flags concerns bindgen and rustc.

/// The flags that decide what a header means: macros, search paths, the
/// language, the target. Everything else libclang may not know (gcc's flags).
pub fn for_bindgen(cflags: &[String]) -> Vec<String> {
    const WITH_SEPARATE_VALUE: [&str; 4] = ["-I", "-D", "-isystem", "-include"];
    let mut kept = Vec::new();
    let mut flags = cflags.iter();
    while let Some(flag) = flags.next() {
        if flag == "-mllvm" {
            // Its value is for the code generator, and no flag of clang's.
            flags.next();
        } else if WITH_SEPARATE_VALUE.contains(&flag.as_str()) {
            kept.push(flag.clone());
            kept.extend(flags.next().cloned());
        } else if ["-I", "-D", "-U", "-isystem", "-std=", "-m", "--target="]
            .iter()
            .any(|prefix| flag.starts_with(prefix))
        {
            kept.push(flag.clone());
        }
    }
    kept
}

/// rustc's counterparts of C flags that must agree on both sides: a callee is
/// not inlined into a caller that lacks its CPU features, a profiler that
/// walks frame pointers needs all of them, and one path of the builder's in an
/// object makes a build that cannot be repeated.
pub fn for_rustc(cflags: &[String]) -> Vec<String> {
    let mut flags = Vec::new();
    if let Some(cpu) = last_value(cflags, "-march=") {
        flags.push(format!("-Ctarget-cpu={cpu}"));
    }
    let pointer = cflags.iter().rev().find(|flag| flag.ends_with("omit-frame-pointer"));
    if pointer.is_some_and(|flag| flag.starts_with("-fno-")) {
        flags.push("-Cforce-frame-pointers=yes".into());
    }
    for flag in cflags {
        let mapped = ["-ffile-prefix-map=", "-fdebug-prefix-map="];
        if let Some(map) = mapped.iter().find_map(|prefix| flag.strip_prefix(prefix)) {
            flags.push(format!("--remap-path-prefix={map}"));
        }
    }
    flags
}

/// Which branches are protected (`-fcf-protection`), if any are: one object
/// without the marks, and the linker leaves them out of the whole program.
pub fn branch_protection(cflags: &[String]) -> Option<&str> {
    let last = cflags.iter().rev().find_map(|flag| match flag.as_str() {
        "-fcf-protection" => Some("full"),
        flag => flag.strip_prefix("-fcf-protection="),
    });
    last.filter(|kind| ["full", "branch", "return"].contains(kind))
}

/// The kind of LTO that the C side is compiled for, as its flag.
pub fn lto(cflags: &[String]) -> Option<&str> {
    let last = cflags.iter().rev().find(|flag| {
        flag.as_str() == "-fno-lto" || flag.as_str() == "-flto" || flag.starts_with("-flto=")
    });
    last.map(String::as_str).filter(|flag| *flag != "-fno-lto")
}

/// Whether the C side has its assertions.
pub fn has_assertions(cflags: &[String]) -> bool {
    let last = cflags.iter().rev().find(|f| f.starts_with("-DNDEBUG") || *f == "-UNDEBUG");
    !last.is_some_and(|flag| flag.starts_with("-DNDEBUG"))
}

/// The sanitizer that the C side is compiled with, as rustc and clang both call it.
pub fn sanitizer(cflags: &[String]) -> Option<&str> {
    let mut names = cflags.iter().filter_map(|flag| flag.strip_prefix("-fsanitize="));
    names.find(|name| matches!(*name, "address" | "thread"))
}

fn last_value<'a>(cflags: &'a [String], prefix: &str) -> Option<&'a str> {
    cflags.iter().rev().find_map(|flag| flag.strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn bindgen_gets_macros_and_paths_and_none_of_gccs_own_flags() {
        let flags =
            words("-Wall -O3 -I. -I Include -DNDEBUG -D A=1 -fno-semantic-interposition -std=c11");
        assert_eq!(for_bindgen(&flags), words("-I. -I Include -DNDEBUG -D A=1 -std=c11"));
    }

    #[test]
    fn bindgen_gets_nothing_of_the_code_generators() {
        let flags = words("-fprofile-generate -mllvm -a=5 -I Include/internal -mavx");
        assert_eq!(for_bindgen(&flags), words("-I Include/internal -mavx"));
    }

    #[test]
    fn the_last_march_decides_rustcs_target_cpu() {
        let flags = words("-march=x86-64-v2 -O2 -march=x86-64-v3");
        assert_eq!(for_rustc(&flags), words("-Ctarget-cpu=x86-64-v3"));
        assert!(for_rustc(&words("-O2")).is_empty());
    }

    #[test]
    fn frame_pointers_kept_in_c_are_kept_in_rust() {
        let kept = words("-fomit-frame-pointer -fno-omit-frame-pointer");
        assert_eq!(for_rustc(&kept), words("-Cforce-frame-pointers=yes"));
        assert!(for_rustc(&words("-fno-omit-frame-pointer -fomit-frame-pointer")).is_empty());
    }

    #[test]
    fn paths_that_c_writes_otherwise_are_written_so_in_rust() {
        let flags = words("-O2 -ffile-prefix-map=/a/b=. -fdebug-prefix-map=/c=/d");
        let expected = words("--remap-path-prefix=/a/b=. --remap-path-prefix=/c=/d");
        assert_eq!(for_rustc(&flags), expected);
    }

    #[test]
    fn branches_protected_in_c_are_protected_in_rust() {
        assert_eq!(branch_protection(&words("-O2 -fcf-protection")), Some("full"));
        let last = words("-fcf-protection=full -fcf-protection=branch");
        assert_eq!(branch_protection(&last), Some("branch"));
        assert_eq!(branch_protection(&words("-fcf-protection -fcf-protection=none")), None);
        assert_eq!(branch_protection(&words("-O2")), None);
    }

    #[test]
    fn the_last_word_on_lto_counts() {
        assert_eq!(lto(&words("-flto=full -O3 -flto=thin")), Some("-flto=thin"));
        assert_eq!(lto(&words("-flto -flto-partition=none")), Some("-flto"));
        assert_eq!(lto(&words("-flto=thin -fno-lto")), None);
        assert_eq!(lto(&words("-O3")), None);
    }

    #[test]
    fn assertions_follow_the_last_word_on_ndebug() {
        assert!(has_assertions(&words("-O2")));
        assert!(!has_assertions(&words("-DNDEBUG -O2")));
        assert!(has_assertions(&words("-DNDEBUG -O2 -UNDEBUG")));
    }

    #[test]
    fn knows_the_sanitizer_of_the_c_side() {
        assert_eq!(sanitizer(&words("-O2 -fsanitize=address -g")), Some("address"));
        assert_eq!(sanitizer(&words("-O2 -fsanitize=thread -g")), Some("thread"));
        assert_eq!(sanitizer(&words("-O2 -fsanitize=undefined -g")), None);
    }
}
