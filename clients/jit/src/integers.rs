//! Functions of ints that compiled code calls: 1 and the result at the address that is their last argument, or 0 to leave. No Python
//! object is touched.

/// Stores a result that fits.
///
/// # Safety
/// `result` can be written.
unsafe fn put(value: Option<i64>, result: *mut i64) -> u64 {
    let Some(value) = value else { return 0 };
    // SAFETY: the caller says that it can be written.
    unsafe { *result = value };
    1
}

/// `pow(x, y, modulus)`; an inverse is left to the interpreter.
///
/// # Safety
/// Compiled code passes the address of a stack slot of its own, as to all functions here.
pub unsafe extern "C" fn power_modulo(x: i64, y: i64, modulus: i64, result: *mut i64) -> u64 {
    let value = || {
        let mut exponent = u64::try_from(y).ok()?;
        let wide = i128::from(modulus);
        let (mut power, mut base) = (1i128, i128::from(x).checked_rem_euclid(wide)?);
        power %= wide;
        while exponent != 0 {
            if exponent & 1 != 0 {
                power = power * base % wide;
            }
            base = base * base % wide;
            exponent >>= 1;
        }
        // The sign of the modulus.
        i64::try_from(if power != 0 && modulus < 0 { power + wide } else { power }).ok()
    };
    // SAFETY: by contract.
    unsafe { put(value(), result) }
}

/// `sum(range(start, ..., step))` of so many items.
///
/// # Safety
/// As for `power_modulo`.
pub unsafe extern "C" fn sum_of_range(start: i64, count: u64, step: i64, result: *mut i64) -> u64 {
    let value = || {
        let count = i128::from(count);
        let pairs = count * (count - 1) / 2;
        let sum = i128::from(step).checked_mul(pairs)?;
        i64::try_from(sum.checked_add(i128::from(start).checked_mul(count)?)?).ok()
    };
    // SAFETY: by contract.
    unsafe { put(value(), result) }
}

/// `math.gcd(x, y)`.
///
/// # Safety
/// As for `power_modulo`.
pub unsafe extern "C" fn gcd(x: i64, y: i64, result: *mut i64) -> u64 {
    let (mut a, mut b) = (x.unsigned_abs(), y.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    // SAFETY: by contract.
    unsafe { put(i64::try_from(a).ok(), result) }
}

/// `math.lcm(x, y)`.
///
/// # Safety
/// As for `power_modulo`.
pub unsafe extern "C" fn lcm(x: i64, y: i64, result: *mut i64) -> u64 {
    let mut divisor = 0;
    // SAFETY: by contract; a slot of this function's own.
    unsafe {
        if gcd(x, y, &mut divisor) == 0 {
            return 0;
        }
        let value = if divisor == 0 { Some(0) } else { (x / divisor).checked_mul(y) };
        put(value.and_then(i64::checked_abs), result)
    }
}

/// `math.isqrt(x)`.
///
/// # Safety
/// As for `power_modulo`.
pub unsafe extern "C" fn isqrt(x: i64, result: *mut i64) -> u64 {
    // SAFETY: by contract.
    unsafe { put(x.checked_isqrt(), result) }
}

/// `math.factorial(x)`.
///
/// # Safety
/// As for `power_modulo`.
pub unsafe extern "C" fn factorial(x: i64, result: *mut i64) -> u64 {
    let value = (0..=20).contains(&x).then(|| (1..=x).product());
    // SAFETY: by contract.
    unsafe { put(value, result) }
}

/// `math.comb(n, k)`.
///
/// # Safety
/// As for `power_modulo`.
pub unsafe extern "C" fn comb(n: i64, k: i64, result: *mut i64) -> u64 {
    let value = || {
        if n < 0 || k < 0 {
            return None; // ValueError
        }
        if k > n {
            return Some(0);
        }
        let (mut ways, fewer) = (1i128, k.min(n - k));
        for taken in 0..fewer {
            // A product of so many consecutive numbers is a multiple of their count's factorial.
            ways = ways * i128::from(n - taken) / i128::from(taken + 1);
            i64::try_from(ways).ok()?;
        }
        i64::try_from(ways).ok()
    };
    // SAFETY: by contract.
    unsafe { put(value(), result) }
}
