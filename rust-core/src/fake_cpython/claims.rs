//! Claims about arithmetic.
//!
//! A claim is a function of numbers. `ci/proofs` takes the compiled function and proves that it
//! never comes to FAILS, nor to a panic, whatever the numbers. Each is tried with many numbers as a
//! unit test too.

pub const FAILS: u32 = 0;
pub const HOLDS: u32 = 1;
/// Numbers about which nothing is claimed.
pub const OUTSIDE: u32 = 2;

/// Numbers of all sizes, near powers of two above all; the same ones each time.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (kind, bits, small) = (self.0 >> 62, self.0 >> 56 & 63, self.0 >> 40 & 31);
        match kind {
            0 => small as usize,
            1 => (1 << bits as usize) + small as usize,
            2 => (1usize << bits).wrapping_sub(small as usize),
            _ => (self.0 as usize) >> bits,
        }
    }
}

/// `claim_name(numbers) if what is assumed => what is claimed;` The names begin with `claim_`.
macro_rules! claims {
    ($($(#[$doc:meta])* $name:ident($($number:ident),*) $(if $assumed:expr)? => $claimed:expr;)*) => {
        $(
            $(#[$doc])*
            #[no_mangle]
            pub extern "C" fn $name($($number: usize),*) -> u32 {
                $(
                    if !$assumed {
                        return $crate::fake_cpython::claims::OUTSIDE;
                    }
                )?
                if $claimed {
                    $crate::fake_cpython::claims::HOLDS
                } else {
                    $crate::fake_cpython::claims::FAILS
                }
            }
        )*

        #[test]
        fn claims_hold_for_many_numbers() {
            $({
                let mut numbers = $crate::fake_cpython::claims::Numbers(1);
                let claim = std::hint::black_box($name as extern "C" fn($(claims!(@ $number)),*) -> u32);
                let mut held = 0;
                for _ in 0..100_000 {
                    $(let $number = numbers.next();)*
                    let result = claim($($number),*);
                    let all = [$($number),*];
                    assert_ne!(result, $crate::fake_cpython::claims::FAILS, "{} {all:?}", stringify!($name));
                    held += usize::from(result == $crate::fake_cpython::claims::HOLDS);
                }
                assert!(held > 0, "{} says nothing", stringify!($name));
            })*
        }
    };
    (@ $number:ident) => { usize };
}
pub(crate) use claims;
