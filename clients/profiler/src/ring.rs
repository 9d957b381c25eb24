//! What has happened last, as much of it as there is room for.

/// The end of a call, where else a function's number stands.
pub const END: u32 = u32::MAX;

/// Beginnings and ends of calls. When it is full, the oldest go.
#[derive(Clone, Default)]
pub struct Ring {
    events: Vec<(u64, u32)>,
    room: usize,
    next: usize,
}

impl Ring {
    /// Room for so many events; 0: none is kept.
    pub fn new(room: usize) -> Self {
        Self { events: Vec::new(), room, next: 0 }
    }

    /// Notes an event: when, and what.
    #[inline(always)]
    pub fn note(&mut self, time: u64, what: u32) {
        if self.room != 0 {
            self.keep(time, what);
        }
    }

    fn keep(&mut self, time: u64, what: u32) {
        if self.events.len() < self.room {
            self.events.push((time, what));
            return;
        }
        self.events[self.next] = (time, what);
        self.next = if self.next + 1 == self.room { 0 } else { self.next + 1 };
    }

    /// The events from the oldest on.
    pub fn events(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let (last, first) = self.events.split_at(self.next);
        first.iter().chain(last).copied()
    }

    pub fn clear(&mut self) {
        self.events.clear();
        self.next = 0;
    }
}
