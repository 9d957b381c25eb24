//! The tasks of asyncio, each with the time that its coroutine has run.

use crate::graph::NONE;
use rustc_hash::FxHashMap;

/// So many tasks have a row of their own. Those that come later share one.
const MOST_TASKS: usize = 1000;

/// A task.
#[derive(Clone)]
pub struct Task {
    pub name: String,
    /// How often it began or went on.
    pub runs: u64,
    /// Ticks while it ran.
    pub time: u64,
}

/// The tasks of a thread.
#[derive(Clone, Default)]
pub struct Tasks {
    pub rows: Vec<Task>,
    /// The rows of coroutines that have not ended, by the numbers of their calls. `NONE`: it is
    /// known that there is no task.
    row_of: FxHashMap<u64, u32>,
}

impl Tasks {
    /// The row of a coroutine's task; the inner `None`: nobody has asked yet whether it has one.
    pub fn row(&self, id: u64) -> Option<u32> {
        self.row_of.get(&id).copied()
    }

    /// A coroutine's task is called so; `None`: it has no task.
    pub fn add(&mut self, id: u64, name: Option<String>) {
        let row = match name {
            None => NONE,
            Some(name) if self.rows.len() < MOST_TASKS => {
                self.rows.push(Task { name, runs: 0, time: 0 });
                (self.rows.len() - 1) as u32
            }
            Some(_) => {
                if self.rows.len() == MOST_TASKS {
                    let name = "tasks that came later".to_owned();
                    self.rows.push(Task { name, runs: 0, time: 0 });
                }
                MOST_TASKS as u32
            }
        };
        self.row_of.insert(id, row);
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
