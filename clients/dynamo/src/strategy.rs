//! What is to be done with the frames of a code object, and with those below them.

use crate::callback::Callback;
use pyo3::exceptions::PyValueError;
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
    /// By torch's number. ValueError: there is no such action.
    pub fn numbered(number: i64) -> PyResult<Self> {
        match number {
            0 => Ok(Self::Default),
            1 => Ok(Self::Skip),
            2 => Ok(Self::RunOnly),
            _ => {
                Err(PyValueError::new_err(format!("ferrule_dynamo knows no FrameAction {number}")))
            }
        }
    }

    /// torch's number.
    pub fn number(self) -> i64 {
        match self {
            Self::Default => 0,
            Self::Skip | Self::SkipUnlessFound => 1,
            Self::RunOnly => 2,
        }
    }

    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::numbered(object.getattr("value")?.extract()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIONS: [Action; 3] = [Action::Default, Action::Skip, Action::RunOnly];

    /// A callback as a word.
    fn named(callback: Option<Callback>) -> &'static str {
        match callback {
            None => "unchanged",
            Some(Callback::Off) => "off",
            Some(Callback::RunOnly) => "run only",
            Some(Callback::On(_)) => "on",
        }
    }

    #[test]
    fn actions_have_the_numbers_of_torch() {
        for (number, action) in (0..).zip(ACTIONS) {
            assert_eq!(Action::numbered(number).ok(), Some(action));
            assert_eq!(action.number(), number);
        }
        for number in [-1, 3, i64::MAX] {
            assert!(Action::numbered(number).is_err());
        }
    }

    #[test]
    fn the_callback_below_a_frame() {
        for (action, below_run_only, below_off) in [
            (Action::Default, "unchanged", "unchanged"),
            (Action::Skip, "off", "off"),
            (Action::SkipUnlessFound, "off", "off"),
            (Action::RunOnly, "unchanged", "run only"),
        ] {
            assert_eq!(named(action.instead_of(&Callback::RunOnly)), below_run_only, "{action:?}");
            assert_eq!(named(action.instead_of(&Callback::Off)), below_off, "{action:?}");
        }
    }

    #[test]
    fn a_region_inherits_that_a_frame_is_skipped_and_no_limit() {
        for current in ACTIONS {
            for below in ACTIONS {
                let inherited = Strategy { current, below }.inherited();
                let skips = |strategy: Strategy| {
                    [strategy.current, strategy.below].map(|it| it == Action::Skip)
                };
                assert_eq!(skips(inherited), skips(Strategy { current, below }));
                assert!(![inherited.current, inherited.below].contains(&Action::RunOnly));
            }
        }
        assert_eq!(Action::SkipUnlessFound.where_found(), Action::Default);
    }
}
