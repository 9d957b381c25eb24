//! An ELF file with one symbol, for debuggers: no contents, only where a function is.

use std::ffi::CStr;
use std::mem::size_of;

const HEADER: usize = size_of::<libc::Elf64_Ehdr>();
const SECTION: usize = size_of::<libc::Elf64_Shdr>();
const SYMBOL: usize = size_of::<libc::Elf64_Sym>();

const MACHINE: u16 = if cfg!(target_arch = "aarch64") { libc::EM_AARCH64 } else { libc::EM_X86_64 };
const RELOCATABLE: u16 = 1;
const SYMBOL_TABLE: u32 = 2;
const STRING_TABLE: u32 = 3;
const NO_BITS: u32 = 8;
const ALLOCATED_AND_EXECUTABLE: u64 = 2 | 4;
const GLOBAL_FUNCTION: u8 = 1 << 4 | 2;

/// Names of sections, and where each starts.
const SECTION_NAMES: &[u8] = b"\0.text\0.symtab\0.strtab\0";
const TEXT: u32 = 1;
const SYMBOLS: u32 = 7;
const STRINGS: u32 = 15;

/// The file: header, symbols, strings, section headers.
pub fn file(address: usize, size: usize, name: &CStr) -> Vec<u8> {
    let mut strings = SECTION_NAMES.to_vec();
    let name_at = strings.len() as u32;
    strings.extend(name.to_bytes_with_nul());
    let symbols_at = HEADER;
    let strings_at = symbols_at + 2 * SYMBOL;
    let sections_at = (strings_at + strings.len()).next_multiple_of(8);
    let mut out = Vec::with_capacity(sections_at + 4 * SECTION);
    header(&mut out, sections_at);
    symbol(&mut out, [0; 4], 0);
    symbol(&mut out, [name_at, u32::from(GLOBAL_FUNCTION), 1, 0], size);
    out.extend(&strings);
    out.resize(sections_at, 0);
    let section = |out: &mut Vec<u8>, words: [u32; 4], places: [usize; 6]| {
        let [name, kind, link, info] = words;
        let [flags, address, offset, size, alignment, entry] = places;
        out.extend([name, kind].iter().flat_map(|word| word.to_ne_bytes()));
        out.extend([flags, address, offset, size].iter().flat_map(|word| word.to_ne_bytes()));
        out.extend([link, info].iter().flat_map(|word| word.to_ne_bytes()));
        out.extend([alignment, entry].iter().flat_map(|word| word.to_ne_bytes()));
    };
    section(&mut out, [0; 4], [0; 6]);
    let flags = ALLOCATED_AND_EXECUTABLE as usize;
    section(&mut out, [TEXT, NO_BITS, 0, 0], [flags, address, 0, size, 16, 0]);
    // Strings are in section 3, and the first global symbol is number 1.
    let table = [0, 0, symbols_at, 2 * SYMBOL, 8, SYMBOL];
    section(&mut out, [SYMBOLS, SYMBOL_TABLE, 3, 1], table);
    section(&mut out, [STRINGS, STRING_TABLE, 0, 0], [0, 0, strings_at, strings.len(), 1, 0]);
    out
}

fn header(out: &mut Vec<u8>, sections_at: usize) {
    // 64 bits, the machine's byte order, version 1.
    let order = if cfg!(target_endian = "big") { 2 } else { 1 };
    out.extend([0x7f, b'E', b'L', b'F', 2, order, 1]);
    out.resize(16, 0);
    out.extend([RELOCATABLE, MACHINE].iter().flat_map(|half| half.to_ne_bytes()));
    out.extend(1u32.to_ne_bytes());
    out.extend([0, 0, sections_at].iter().flat_map(|word| word.to_ne_bytes()));
    out.extend(0u32.to_ne_bytes());
    let halves = [HEADER as u16, 0, 0, SECTION as u16, 4, 3];
    out.extend(halves.iter().flat_map(|half| half.to_ne_bytes()));
}

/// Name, type, section and offset there.
fn symbol(out: &mut Vec<u8>, [name, kind, section, value]: [u32; 4], size: usize) {
    out.extend(name.to_ne_bytes());
    out.extend([kind as u8, 0]);
    out.extend((section as u16).to_ne_bytes());
    out.extend(u64::from(value).to_ne_bytes());
    out.extend((size as u64).to_ne_bytes());
}
