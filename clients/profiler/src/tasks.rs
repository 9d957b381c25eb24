//! The tasks of asyncio, each with the time that its coroutine has run.

use rustc_hash::FxHashMap;

/// The index of no row: of no task, or of no function, as the caller of what has no known caller.
pub const NONE: u32 = u32::MAX;
/// So many tasks have a row of their own. Those that come later share one.
const MOST_TASKS: usize = 1000;

/// A task.
#[derive(Clone)]
pub struct Task {
    pub name: String,
    /// How often it began or was resumed.
    pub runs: u64,
    /// Ticks while it ran.
    pub time: u64,
}

/// The tasks of a thread.
#[derive(Clone, Default)]
pub struct Tasks {
    pub rows: Vec<Task>,
    /// Of coroutines that have not ended, by the numbers of their calls.
    row_of: FxHashMap<u64, Named>,
}

/// What is known of a coroutine.
#[derive(Clone, Copy)]
pub struct Named {
    /// Its task's row. `NONE`: it has no task.
    pub row: u32,
    /// Whether its task has its name. One that begins as it is made gets it only after that.
    pub name_is_final: bool,
}

impl Tasks {
    /// What is known of a coroutine; `None`: not looked up yet.
    pub fn named(&self, id: u64) -> Option<Named> {
        self.row_of.get(&id).copied()
    }

    /// A coroutine's task is called so; `None`: it has no task. The row is returned.
    pub fn name(&mut self, id: u64, name: Option<String>) -> u32 {
        let before = self.named(id).filter(|named| named.row != NONE);
        let row = match (before, name) {
            (Some(Named { row, .. }), Some(name)) => {
                if let Some(task) = self.rows.get_mut(row as usize) {
                    if (row as usize) < MOST_TASKS {
                        task.name = name;
                    }
                }
                row
            }
            (Some(Named { row, .. }), None) => row,
            (None, Some(name)) => self.add(name),
            (None, None) => NONE,
        };
        self.row_of.insert(id, Named { row, name_is_final: self.row_of.contains_key(&id) });
        row
    }

    fn add(&mut self, name: String) -> u32 {
        if self.rows.len() < MOST_TASKS {
            self.rows.push(Task { name, runs: 0, time: 0 });
            return (self.rows.len() - 1) as u32;
        }
        if self.rows.len() == MOST_TASKS {
            let name = "tasks that came later".to_owned();
            self.rows.push(Task { name, runs: 0, time: 0 });
        }
        MOST_TASKS as u32
    }

    /// A task has run for so long.
    pub fn ran(&mut self, row: u32, took: u64) {
        if let Some(task) = self.rows.get_mut(row as usize) {
            task.runs += 1;
            task.time += took;
        }
    }

    /// A coroutine has ended.
    #[inline(always)]
    pub fn forget(&mut self, id: u64) {
        if !self.row_of.is_empty() {
            self.row_of.remove(&id);
        }
    }

    pub fn restart(&mut self) {
        for task in &mut self.rows {
            (task.runs, task.time) = (0, 0);
        }
    }

    /// Takes over the rows of a thread that has ended.
    pub fn absorb(&mut self, other: &Self) {
        for theirs in other.rows.iter().filter(|task| task.runs != 0) {
            if self.rows.len() <= MOST_TASKS {
                self.rows.push(theirs.clone());
            }
        }
    }
}
