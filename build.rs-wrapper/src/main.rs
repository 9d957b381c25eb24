//! What connects CPython's Makefile and the Rust frame core.
//!
//! `object` makes the one object file that CPython links, with the flags of the
//! build at hand; `bindings` is its first half, for those who only want to
//! compile the crate; `header` writes the C header that the crate exports, or
//! checks that the committed one is what it would write.

mod bindings;
mod common;
mod flags;
mod header;
mod libclang;
mod object;
mod target;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "ferrule-build", about = "Builds Ferrule's frame core for one CPython build")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run bindgen on CPython's internal headers
    Bindings {
        /// Where to write the bindings
        #[arg(long)]
        output: PathBuf,
        /// The C compiler's flags, as CPython's Makefile has them
        #[arg(last = true)]
        cflags: Vec<String>,
    },
    /// Build the frame core as one object file
    Object {
        /// The object file to write
        #[arg(long)]
        output: PathBuf,
        /// Where bindings and cargo's output go
        #[arg(long)]
        work_dir: PathBuf,
        /// 1: emit bitcode, for the linker to inline into C
        #[arg(long, default_value = "0")]
        cross_lto: String,
        /// The C compiler of the build, which takes the bitcode over
        #[arg(long, default_value = "cc")]
        cc: String,
        /// The archiver of the build
        #[arg(long, default_value = "ar")]
        ar: String,
        /// Extra `--cfg` for the crate (tests)
        #[arg(long)]
        cfg: Vec<String>,
        /// The C compiler's flags, as CPython's Makefile has them
        #[arg(last = true)]
        cflags: Vec<String>,
    },
    /// Write rust-core/include/ferrule_core.h
    Header {
        /// Only compare; fail when the committed header is out of date
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Bindings { output, cflags } => bindings::write(&output, &cflags),
        Command::Object { output, work_dir, cross_lto, cc, ar, cfg, cflags } => {
            object::build(&object::Request {
                output: &output,
                work_dir: &work_dir,
                cross_lto: cross_lto == "1",
                cc: &cc,
                ar: &ar,
                cfg: &cfg,
                cflags: &cflags,
            })
        }
        Command::Header { check } => header::write_or_check(check),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("ferrule-build: {message}");
            ExitCode::FAILURE
        }
    }
}
