//! The instructions of CPython 3.13 that are compiled. `ferrule_jit` compares the magic number of the interpreter's bytecode,
//! and a test all others.

/// That of CPython 3.13's bytecode, which a release series keeps.
pub const MAGIC_NUMBER: u16 = 3571;

macro_rules! opcodes {
    ($($name:ident = $number:literal, $caches:literal;)*) => {
        $(pub const $name: u8 = $number;)*

        /// How many code units with caches follow an instruction; `None`: it is not compiled.
        pub fn caches(opcode: u8) -> Option<usize> {
            match opcode {
                $($name => Some($caches),)*
                _ => None,
            }
        }

        /// Names, numbers and caches.
        pub const TABLE: &[(&str, u8, usize)] = &[$((stringify!($name), $number, $caches),)*];
    };
}

opcodes! {
    CACHE = 0, 0;
    BINARY_SLICE = 4, 0;
    BINARY_SUBSCR = 5, 1;
    DELETE_SUBSCR = 9, 0;
    END_FOR = 11, 0;
    GET_ITER = 19, 0;
    MAKE_FUNCTION = 26, 0;
    NOP = 30, 0;
    POP_TOP = 32, 0;
    PUSH_NULL = 34, 0;
    RETURN_GENERATOR = 35, 0;
    RETURN_VALUE = 36, 0;
    STORE_SLICE = 38, 0;
    STORE_SUBSCR = 39, 1;
    TO_BOOL = 40, 3;
    UNARY_INVERT = 41, 0;
    UNARY_NEGATIVE = 42, 0;
    UNARY_NOT = 43, 0;
    BINARY_OP = 45, 1;
    BUILD_LIST = 47, 0;
    BUILD_SLICE = 50, 0;
    BUILD_TUPLE = 52, 0;
    CALL = 53, 3;
    CALL_INTRINSIC_1 = 55, 0;
    CALL_KW = 57, 0;
    COMPARE_OP = 58, 1;
    CONTAINS_OP = 59, 1;
    COPY = 61, 0;
    COPY_FREE_VARS = 62, 0;
    DELETE_FAST = 65, 0;
    DELETE_GLOBAL = 66, 0;
    DELETE_NAME = 67, 0;
    EXTENDED_ARG = 71, 0;
    FOR_ITER = 72, 1;
    IS_OP = 76, 0;
    JUMP_BACKWARD = 77, 1;
    JUMP_BACKWARD_NO_INTERRUPT = 78, 0;
    JUMP_FORWARD = 79, 0;
    LIST_APPEND = 80, 0;
    LIST_EXTEND = 81, 0;
    LOAD_ATTR = 82, 9;
    LOAD_CONST = 83, 0;
    LOAD_DEREF = 84, 0;
    LOAD_FAST = 85, 0;
    LOAD_FAST_AND_CLEAR = 86, 0;
    LOAD_FAST_CHECK = 87, 0;
    LOAD_FAST_LOAD_FAST = 88, 0;
    LOAD_GLOBAL = 91, 4;
    LOAD_NAME = 92, 0;
    MAKE_CELL = 94, 0;
    POP_JUMP_IF_FALSE = 97, 1;
    POP_JUMP_IF_NONE = 98, 1;
    POP_JUMP_IF_NOT_NONE = 99, 1;
    POP_JUMP_IF_TRUE = 100, 1;
    RAISE_VARARGS = 101, 0;
    RETURN_CONST = 103, 0;
    SET_FUNCTION_ATTRIBUTE = 106, 0;
    STORE_ATTR = 108, 4;
    STORE_DEREF = 109, 0;
    STORE_FAST = 110, 0;
    STORE_FAST_LOAD_FAST = 111, 0;
    STORE_FAST_STORE_FAST = 112, 0;
    STORE_GLOBAL = 113, 0;
    STORE_NAME = 114, 0;
    SWAP = 115, 0;
    UNPACK_SEQUENCE = 117, 1;
    YIELD_VALUE = 118, 0;
    RESUME = 149, 0;
}

const LOAD_SUPER_ATTR: u8 = 93;
const SEND: u8 = 104;

const CACHES: [u8; 256] = {
    let mut all = [0; 256];
    (all[LOAD_SUPER_ATTR as usize], all[SEND as usize]) = (1, 1);
    let mut index = 0;
    while index < TABLE.len() {
        let (_, number, caches) = TABLE[index];
        all[number as usize] = caches as u8;
        index += 1;
    }
    all
};

/// How many code units with caches follow an instruction, whether it is compiled or not.
pub const fn units_of_caches(opcode: u8) -> usize {
    CACHES[opcode as usize] as usize
}

/// The instruction of which this is a specialized form, or itself; `None`: it is of a tool, or unknown.
pub const fn general(opcode: u8) -> Option<u8> {
    const INPLACE_ADD_UNICODE: u8 = 3;
    const COUNTED_JUMP: u8 = 234;
    Some(match opcode {
        INPLACE_ADD_UNICODE | 150..=156 => BINARY_OP,
        157..=161 => BINARY_SUBSCR,
        162..=181 => CALL,
        182..=184 => COMPARE_OP,
        185..=186 => CONTAINS_OP,
        187..=190 => FOR_ITER,
        191..=202 => LOAD_ATTR,
        203..=204 => LOAD_GLOBAL,
        205..=206 => LOAD_SUPER_ATTR,
        207 => RESUME,
        208 => SEND,
        209..=211 => STORE_ATTR,
        212..=213 => STORE_SUBSCR,
        214..=219 => TO_BOOL,
        220..=222 => UNPACK_SEQUENCE,
        COUNTED_JUMP => JUMP_BACKWARD,
        ..=RESUME => opcode,
        _ => return None,
    })
}

/// The name of an instruction, for `explain`.
pub fn name(opcode: u8) -> Option<&'static str> {
    TABLE.iter().find(|(_, number, _)| *number == opcode).map(|(name, _, _)| *name)
}

/// A method that an instruction calls. Operators by their number in BINARY_OP, or in `opcode.cmp_op`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    GetItem,
    SetItem,
    Negative,
    /// `takes_part`: the other operand has a method too, which is called if this one returns NotImplemented.
    Binary {
        operator: u32,
        in_place: bool,
        takes_part: bool,
    },
    /// Of the right operand, where the left one is no instance.
    Reflected {
        operator: u32,
        in_place: bool,
    },
    Comparison(u32),
}
