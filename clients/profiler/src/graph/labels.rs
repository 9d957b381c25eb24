//! Labels: parts of a program that have places of their own in the tree, whatever runs in them.
//!
//! Where a function enters a label, that is below the function, and the function is below it once more: it runs on
//! there. A label ends where it is left, and not with a function: where the function has returned before, it is moved to
//! the caller. It is suspended and resumed with the generator or coroutine that has entered it.

use super::{continues, is_label, Entry, Graph, Link, Moved, CONTINUES, NONE, OF_LABEL, OF_THREAD};
use crate::codes::Kind;

impl Graph {
    /// A label is entered. With `again` it was entered before, and is no new one.
    pub fn enter_label(&mut self, key: usize, code: u32, again: bool, now: u64) {
        self.count_time(now);
        let id = (self.new_id() & OF_THREAD) << 3 | OF_LABEL;
        self.put_label(Moved { id, key, code, line: 0, kind: Kind::Whole, task: NONE }, now);
        if again {
            return;
        }
        if let Some(label) = self.stack.iter().rev().find(|entry| entry.id == id) {
            let link = &mut self.links[label.link as usize];
            link.calls += 1;
            link.runs += 1;
        }
    }

    /// The innermost label of this number in the profile is left.
    pub fn leave_label(&mut self, code: u32, again: bool, now: u64, raised: bool) {
        let is_it = |entry: &Entry| is_label(entry.id) && self.code_of(entry.func) == Some(code);
        let Some(place) = self.stack.iter().rposition(is_it) else {
            return; // it was entered before the profile, or in another thread
        };
        self.count_time(now);
        let link = self.stack[place].link;
        self.links[link as usize].raised += u64::from(raised);
        let mut above = Vec::new();
        while self.stack.len() > place + 1 {
            above.extend(self.take(now));
        }
        self.close(now, !again);
        for moved in above.into_iter().rev() {
            if is_label(moved.id) {
                self.put_label(moved, now);
            } else if !continues(moved.id) {
                self.put(moved, now);
            }
        }
    }

    /// Takes the labels off the stack that are above a call, with what runs in them; strays stay known.
    #[cold]
    pub(super) fn take_above(&mut self, id: u64, now: u64) -> Vec<Moved> {
        let mut labels = Vec::new();
        while self.top().id != id {
            let top = self.top().id;
            if is_label(top) {
                labels.extend(self.take(now));
            } else if continues(top) {
                self.close(now, false);
            } else if let Some(stray) = self.close(now, true) {
                self.strays.insert(stray.id, stray);
            }
        }
        labels.reverse();
        labels
    }

    /// Puts labels on the stack, in this order, with the function that runs.
    pub(super) fn put_labels(&mut self, labels: Vec<Moved>, now: u64) {
        for label in labels {
            self.put_label(label, now);
        }
    }

    fn put_label(&mut self, label: Moved, now: u64) {
        let within = self.described();
        self.put(label, now);
        if let Some(within) = within.filter(|within| !is_label(within.id)) {
            self.put(Moved { id: label.id | CONTINUES, task: NONE, ..within }, now);
        }
    }

    /// What is on top of the stack; `None`: the thread itself.
    fn described(&self) -> Option<Moved> {
        let top = self.top();
        let Link { key, line, kind, .. } = self.links[top.link as usize];
        let code = self.code_of(top.func)?;
        Some(Moved { id: top.id, key, code, line, kind, task: top.task })
    }

    fn take(&mut self, now: u64) -> Option<Moved> {
        let described = self.described();
        self.close(now, false);
        described
    }

    fn put(&mut self, moved: Moved, now: u64) {
        let mut link = self.link(moved.key, moved.code, moved.kind);
        if moved.line != 0 {
            link = self.link_of_line(link, moved.line);
        }
        let Link { node, func, edge, .. } = self.links[link as usize];
        self.open(Entry { id: moved.id, start: now, link, node, func, edge, task: moved.task });
    }

    /// The number of the call on top of the stack, which may run on below a label.
    pub(super) fn call_on_top(&self) -> u64 {
        let ids = self.stack.iter().rev().map(|entry| entry.id);
        ids.into_iter().find(|id| !is_label(*id) && !continues(*id)).unwrap_or(0)
    }
}
