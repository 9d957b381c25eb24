//! What has happened last, as much of it as there is room for.

use std::sync::Arc;

/// The end of a call, where other entries have a function's number.
pub const END: u32 = u32::MAX;
/// No task.
pub const NO_TASK: u32 = u32::MAX;

/// A beginning or an end of a call.
#[derive(Clone, Copy)]
pub struct Event {
    pub time: u64,
    /// The function, or [`END`].
    pub what: u32,
    /// The row of the task whose coroutine begins or is resumed, or [`NO_TASK`].
    pub task: u32,
}

/// Beginnings and ends of calls. When it is full, the oldest go.
#[derive(Clone, Default)]
pub struct Ring {
    events: Vec<Event>,
    /// Arguments by the events' places; as far as there are any.
    texts: Vec<Option<Arc<str>>>,
    room: usize,
    next: usize,
    /// The beginnings of calls that had not ended where the oldest event is, the outermost first.
    open: Vec<(u32, u32, Option<Arc<str>>)>,
    /// How many events have gone.
    pub dropped: u64,
}

impl Ring {
    /// Room for so many events; 0: none is kept.
    pub fn new(room: usize) -> Self {
        Self { room, ..Self::default() }
    }

    /// Notes an event: when, and what.
    #[inline(always)]
    pub fn note(&mut self, time: u64, what: u32) {
        if self.room != 0 {
            self.keep(Event { time, what, task: NO_TASK });
        }
    }

    fn keep(&mut self, event: Event) {
        if self.events.len() < self.room {
            self.events.push(event);
            return;
        }
        let oldest = std::mem::replace(&mut self.events[self.next], event);
        let text = self.texts.get_mut(self.next).and_then(Option::take);
        if oldest.what == END {
            self.open.pop();
        } else {
            self.open.push((oldest.what, oldest.task, text));
        }
        self.dropped += 1;
        self.next = if self.next + 1 == self.room { 0 } else { self.next + 1 };
    }

    /// Where the last event is.
    fn last(&self) -> Option<usize> {
        self.next.checked_sub(1).or_else(|| self.events.len().checked_sub(1))
    }

    /// The event that was noted last is of this task.
    pub fn of_task(&mut self, task: u32) {
        if let Some(event) = self.last().and_then(|last| self.events.get_mut(last)) {
            event.task = task;
        }
    }

    /// The call that was noted last has these arguments.
    pub fn with_arguments(&mut self, text: Arc<str>) {
        if let Some(last) = self.last() {
            if self.texts.len() <= last {
                self.texts.resize(last + 1, None);
            }
            self.texts[last] = Some(text);
        }
    }

    /// The events from the oldest on, with their arguments. Before them, at the time of the oldest, are
    /// the beginnings of the calls that were under way then.
    pub fn events(&self) -> impl Iterator<Item = (Event, Option<&str>)> + '_ {
        let count = self.events.len();
        let time = self.events.get(self.next).map_or(0, |oldest| oldest.time);
        let open = self.open.iter().map(move |(what, task, text)| {
            (Event { time, what: *what, task: *task }, text.as_deref())
        });
        open.chain((self.next..count).chain(0..self.next).map(|place| {
            let text = self.texts.get(place).and_then(|text| text.as_deref());
            (self.events[place], text)
        }))
    }

    pub fn clear(&mut self) {
        self.events.clear();
        self.texts.clear();
        self.next = 0;
        self.open.clear();
        self.dropped = 0;
    }
}
