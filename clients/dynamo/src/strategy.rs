//! What is to be done with the frames of a code object, and with those below them.

use crate::callback::Callback;
use pyo3::prelude::*;

/// What is done with a frame. The numbers are those of torch's `FrameAction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Compiled code is looked for, and made if there is none.
    #[default]
    Default,
    /// It runs as it is.
    Skip,
    /// Compiled code is looked for; without any it runs as it is.
    RunOnly,
    /// Of the frames below one that has reached its limit, in torch 2.6: they run as they are where that one does.
    SkipUnlessFound,
}

impl Action {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(match object.getattr("value")?.extract::<u32>()? {
            1 => Self::Skip,
            2 => Self::RunOnly,
            _ => Self::Default,
        })
    }

    /// The same for the frames below one whose compiled code was found.
    pub fn where_found(self) -> Self {
        if self == Self::SkipUnlessFound {
            Self::Default
        } else {
            self
        }
    }

    /// The callback of the frames below, if it is another one than `callback`.
    pub fn instead_of(self, callback: &Callback) -> Option<Callback> {
        match (self, callback) {
            (Self::Default, _) | (Self::RunOnly, Callback::RunOnly) => None,
            (Self::Skip | Self::SkipUnlessFound, _) => Some(Callback::Off),
            (Self::RunOnly, _) => Some(Callback::RunOnly),
        }
    }

    /// The callback of the frames below, where `callback` is the one of the frame.
    pub fn below(self, callback: &Callback, py: Python<'_>) -> Callback {
        match self {
            Self::Default => callback.clone_ref(py),
            Self::Skip | Self::SkipUnlessFound => Callback::Off,
            Self::RunOnly => Callback::RunOnly,
        }
    }
}

/// torch's `FrameExecStrategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strategy {
    /// For the frame itself.
    pub current: Action,
    /// For the frames below it.
    pub below: Action,
}

impl Strategy {
    /// Reads torch's object.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            current: Action::of(&object.getattr("cur_action")?)?,
            below: Action::of(&object.getattr("recursive_action")?)?,
        })
    }

    /// The frame runs as it is; others are none of its business.
    pub fn skipped() -> Self {
        Self { current: Action::Skip, below: Action::Default }
    }

    /// What a region of its own takes over from the strategy of all: that a frame is skipped, and
    /// not that another's limit of recompilations was reached.
    pub fn inherited(self) -> Self {
        let inherited = |action| if action == Action::Skip { action } else { Action::Default };
        Self { current: inherited(self.current), below: inherited(self.below) }
    }
}
