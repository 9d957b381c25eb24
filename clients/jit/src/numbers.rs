//! What compiled code calls: arithmetic that is more than a few instructions. No Python object is touched.

use std::ffi::c_double;

extern "C" {
    fn fmod(x: c_double, y: c_double) -> c_double;
    fn pow(x: c_double, y: c_double) -> c_double;
}

/// `x % y` of floats: the sign of `y`, zero included. `y` is not zero.
pub extern "C" fn remainder(x: f64, y: f64) -> f64 {
    // SAFETY: a function of the C library that takes any numbers.
    let rest = unsafe { fmod(x, y) };
    if rest == 0.0 {
        return 0.0f64.copysign(y);
    }
    if (y < 0.0) == (rest < 0.0) {
        rest
    } else {
        rest + y
    }
}

/// `x // y` of floats. `y` is not zero.
pub extern "C" fn floor_divide(x: f64, y: f64) -> f64 {
    // SAFETY: as in `remainder`.
    let rest = unsafe { fmod(x, y) };
    // A whole number but for rounding.
    let mut quotient = (x - rest) / y;
    if rest != 0.0 && (y < 0.0) != (rest < 0.0) {
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return 0.0f64.copysign(x / y);
    }
    let below = quotient.floor();
    if quotient - below > 0.5 {
        below + 1.0
    } else {
        below
    }
}

/// `x ** y` of floats where the C library's answer is CPython's without a question; 0: it is not.
///
/// # Safety
/// `result` can be written.
pub unsafe extern "C" fn float_power(x: f64, y: f64, result: *mut f64) -> u64 {
    if !x.is_finite() || !y.is_finite() || x == 0.0 {
        return 0;
    }
    let negative = x < 0.0;
    if negative && y.floor() != y {
        return 0; // a complex number
    }
    let odd = negative && (y.abs() % 2.0) == 1.0;
    // SAFETY: a function of the C library that takes any numbers.
    let power = if x.abs() == 1.0 { 1.0 } else { unsafe { pow(x.abs(), y) } };
    if !power.is_finite() || power < f64::MIN_POSITIVE * 2.0 {
        return 0; // OverflowError, or next to zero, where errno decides
    }
    // SAFETY: compiled code passes the address of a stack slot of its own.
    unsafe { *result = if odd { -power } else { power } };
    1
}

/// `x ** y` of ints where it is an int of 64 bits; 0: it is not.
///
/// # Safety
/// `result` can be written.
pub unsafe extern "C" fn int_power(x: i64, y: i64, result: *mut i64) -> u64 {
    let Some(power) = u32::try_from(y).ok().and_then(|y| x.checked_pow(y)) else { return 0 };
    // SAFETY: compiled code passes the address of a stack slot of its own.
    unsafe { *result = power };
    1
}

/// The greatest whole number that is not above.
pub extern "C" fn floor(x: f64) -> f64 {
    x.floor()
}

/// The nearest whole number, the even one of two.
pub extern "C" fn nearest(x: f64) -> f64 {
    x.round_ties_even()
}

/// The least whole number that is not below.
pub extern "C" fn ceil(x: f64) -> f64 {
    x.ceil()
}
