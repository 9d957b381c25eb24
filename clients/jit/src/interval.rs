//! Intervals of ints, and what operations make of them.

use cranelift_codegen::ir::condcodes::IntCC;

/// All numbers from `low` to `high`; none if `low` is the greater one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    pub low: i64,
    pub high: i64,
}

/// The bounds as numbers that cannot overflow here.
type Wide = (i128, i128);

impl Interval {
    pub const ALL: Self = Self::new(i64::MIN, i64::MAX);
    pub const NONE: Self = Self::new(i64::MAX, i64::MIN);
    pub const CONDITION: Self = Self::new(0, 1);

    pub const fn new(low: i64, high: i64) -> Self {
        Self { low, high }
    }

    pub const fn just(number: i64) -> Self {
        Self::new(number, number)
    }

    /// The unsigned numbers of so many bits, fewer than 64.
    pub const fn unsigned(bits: u32) -> Self {
        Self::new(0, (1 << bits) - 1)
    }

    pub fn is_empty(self) -> bool {
        self.low > self.high
    }

    pub fn known(self) -> Option<i64> {
        (self.low == self.high).then_some(self.low)
    }

    pub fn is_natural(self) -> bool {
        self.low >= 0
    }

    pub fn is_within(self, other: Self) -> bool {
        self.is_empty() || (other.low <= self.low && self.high <= other.high)
    }

    pub fn join(self, other: Self) -> Self {
        Self::new(self.low.min(other.low), self.high.max(other.high))
    }

    pub fn meet(self, other: Self) -> Self {
        Self::new(self.low.max(other.low), self.high.min(other.high))
    }

    /// Those of the results that fit into 64 bits.
    pub fn clamped((low, high): Wide) -> Self {
        let (least, most) = (i128::from(i64::MIN), i128::from(i64::MAX));
        if low > most || high < least {
            return Self::NONE;
        }
        Self::new(low.max(least) as i64, high.min(most) as i64)
    }

    /// If all of them fit.
    pub fn fitting(wide: Wide) -> Option<Self> {
        let clamped = Self::clamped(wide);
        (i128::from(clamped.low) == wide.0 && i128::from(clamped.high) == wide.1).then_some(clamped)
    }

    fn wide(self) -> Wide {
        (i128::from(self.low), i128::from(self.high))
    }

    pub fn sum(self, other: Self) -> Wide {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        (a + c, b + d)
    }

    pub fn difference(self, other: Self) -> Wide {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        (a - d, b - c)
    }

    pub fn product(self, other: Self) -> Wide {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        extremes([a * c, a * d, b * c, b * d])
    }

    /// For counts from 0 to 63.
    pub fn shifted_left(self, count: Self) -> Wide {
        let (a, b) = self.wide();
        extremes([a << count.low, a << count.high, b << count.low, b << count.high])
    }

    /// For counts from 0 to 63.
    pub fn shifted_right(self, count: Self) -> Self {
        let (a, b) = self.wide();
        Self::clamped(extremes([a >> count.low, a >> count.high, b >> count.low, b >> count.high]))
    }

    /// Truncated towards zero, by numbers above zero.
    pub fn quotient(self, divisor: Self) -> Self {
        let ((a, b), (c, d)) = (self.wide(), divisor.wide());
        Self::clamped(extremes([a / c, a / d, b / c, b / d]))
    }

    /// Of the dividend's sign, by numbers above zero.
    pub fn remainder(self, divisor: Self) -> Self {
        let most = divisor.high - 1;
        let low = if self.is_natural() { 0 } else { self.low.max(-most) };
        Self::new(low, if self.high < 0 { 0 } else { self.high.min(most) })
    }

    pub fn and(self, other: Self) -> Self {
        match (self.is_natural(), other.is_natural()) {
            (true, true) => Self::new(0, self.high.min(other.high)),
            (true, false) => Self::new(0, self.high),
            (false, true) => Self::new(0, other.high),
            (false, false) => self.bits(other),
        }
    }

    pub fn or(self, other: Self) -> Self {
        let bits = self.bits(other);
        if self.is_natural() && other.is_natural() {
            return Self::new(self.low.max(other.low), bits.high);
        }
        bits
    }

    pub fn xor(self, other: Self) -> Self {
        self.bits(other)
    }

    /// What has no more significant bits than two numbers, and no sign if neither has one.
    fn bits(self, other: Self) -> Self {
        let size = |number: i64| if number < 0 { !number } else { number };
        let bits = size(self.low) | size(self.high) | size(other.low) | size(other.high);
        let most = i64::MAX.checked_shr(bits.leading_zeros() - 1).unwrap_or(0);
        Self::new(if self.is_natural() && other.is_natural() { 0 } else { -most - 1 }, most)
    }

    pub fn inverted(self) -> Self {
        Self::new(!self.high, !self.low)
    }

    pub fn absolute(self) -> Wide {
        let (low, high) = self.wide();
        if low >= 0 {
            return (low, high);
        }
        if high < 0 {
            (-high, -low)
        } else {
            (0, high.max(-low))
        }
    }

    /// Whether a comparison holds for all pairs, or for none.
    pub fn compare(self, condition: IntCC, other: Self) -> Option<bool> {
        let (a, b) = (self, other);
        let natural = a.is_natural() && b.is_natural();
        let signed = match condition {
            IntCC::Equal if a.known().is_some() && a == b => return Some(true),
            IntCC::Equal => return a.meet(b).is_empty().then_some(false),
            IntCC::NotEqual => return a.compare(IntCC::Equal, b).map(|equal| !equal),
            IntCC::UnsignedLessThan if natural => IntCC::SignedLessThan,
            IntCC::UnsignedLessThanOrEqual if natural => IntCC::SignedLessThanOrEqual,
            IntCC::UnsignedGreaterThan if natural => IntCC::SignedGreaterThan,
            IntCC::UnsignedGreaterThanOrEqual if natural => IntCC::SignedGreaterThanOrEqual,
            // Without a sign a negative number is above all others.
            IntCC::UnsignedLessThan | IntCC::UnsignedLessThanOrEqual => {
                return (a.high < 0 && b.is_natural()).then_some(false);
            }
            IntCC::UnsignedGreaterThan | IntCC::UnsignedGreaterThanOrEqual => {
                return (a.high < 0 && b.is_natural()).then_some(true);
            }
            signed => signed,
        };
        let (always, never) = match signed {
            IntCC::SignedLessThan => (a.high < b.low, a.low >= b.high),
            IntCC::SignedLessThanOrEqual => (a.high <= b.low, a.low > b.high),
            IntCC::SignedGreaterThan => (a.low > b.high, a.high <= b.low),
            _ => (a.low >= b.high, a.high < b.low),
        };
        (always || never).then_some(always)
    }

    /// The numbers of this interval for which a comparison with one of the other interval can hold.
    pub fn where_it_holds(self, condition: IntCC, other: Self) -> Self {
        let below = |most: Option<i64>| most.map_or(Self::NONE, |most| Self::new(i64::MIN, most));
        let above =
            |least: Option<i64>| least.map_or(Self::NONE, |least| Self::new(least, i64::MAX));
        // Below a natural number without a sign: natural itself.
        let natural = |most| below(most).meet(Self::new(0, i64::MAX));
        let allowed = match condition {
            IntCC::Equal => other,
            IntCC::NotEqual => match other.known() {
                Some(number) if number == self.low => above(number.checked_add(1)),
                Some(number) if number == self.high => below(number.checked_sub(1)),
                _ => Self::ALL,
            },
            IntCC::SignedLessThan => below(other.high.checked_sub(1)),
            IntCC::SignedLessThanOrEqual => below(Some(other.high)),
            IntCC::SignedGreaterThan => above(other.low.checked_add(1)),
            IntCC::SignedGreaterThanOrEqual => above(Some(other.low)),
            IntCC::UnsignedLessThan if other.is_natural() => natural(other.high.checked_sub(1)),
            IntCC::UnsignedLessThanOrEqual if other.is_natural() => natural(Some(other.high)),
            IntCC::UnsignedGreaterThan if self.is_natural() && other.is_natural() => {
                above(other.low.checked_add(1))
            }
            IntCC::UnsignedGreaterThanOrEqual if self.is_natural() && other.is_natural() => {
                above(Some(other.low))
            }
            _ => Self::ALL,
        };
        self.meet(allowed)
    }

    /// An interval that covers this one and a later one, with bounds out of few: it changes a few times only.
    pub fn widened(self, later: Self) -> Self {
        const BOUNDS: [i64; 5] = [i64::MIN, -1, 0, 1, i64::MAX];
        let joined = self.join(later);
        let low = BOUNDS.iter().rev().find(|bound| **bound <= joined.low);
        let high = BOUNDS.iter().find(|bound| **bound >= joined.high);
        Self::new(
            if joined.low < self.low { low.copied().unwrap_or(i64::MIN) } else { joined.low },
            if joined.high > self.high { high.copied().unwrap_or(i64::MAX) } else { joined.high },
        )
    }
}

fn extremes(numbers: [i128; 4]) -> Wide {
    let [a, b, c, d] = numbers;
    (a.min(b).min(c.min(d)), a.max(b).max(c.max(d)))
}
