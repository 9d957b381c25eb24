//! The watch of a frame that never runs again, for its drop callback.

use super::{release_hook, Watch, IN_CALLBACK};
use crate::frame::Owner;
use crate::reference_count::{decref, new_reference};
use core::mem::MaybeUninit;
use core::ops::Deref;

/// The hook and data of a watch whose frame never runs again, with a shim of its own, which is linked only during the
/// drop callback. Frames above it have ended by then. Other threads walk this one's frames while it is stopped, and
/// keep no pointer to a shim.
///
/// # Invariants
/// Has a reference to its code, and in its cell the hook that the watch had.
pub struct DroppedWatch(Watch);

impl Watch {
    /// The frame never runs again: moves the watch's hook and data out, for the drop callback. `None` if a callback of it
    /// runs in a greenlet, and needs them: the watch only leaves the list, and continues as usual if the callback returns.
    ///
    /// The shim stays, since frames lead to it. They may still return to it, during the callback or later: a greenlet
    /// can be switched to. No event is delivered for that.
    ///
    /// # Safety
    /// - *listed*: the watch is in the list of a thread, which ends.
    /// - *alone*: that is the calling thread, or does not run: no other one works on its watches.
    pub unsafe fn take_for_drop(&self) -> Option<DroppedWatch> {
        // SAFETY: *listed* and *alone*.
        unsafe { self.unlist() };
        if self.has_state(IN_CALLBACK) {
            return None;
        }
        // SAFETY: zeros are valid for all fields but the owner, which is set next.
        let dropped: Watch = unsafe { MaybeUninit::zeroed().assume_init() };
        dropped.shim().set_owner(Owner::C_STACK);
        dropped.request.set(self.request());
        dropped.watched.set(self.watched.get());
        // SAFETY: the new one is ours, and *alone* on this one. References from `hook` are over, since they last for a
        // stretch in which this does not run. The code is live, as the shim has it.
        unsafe {
            (*dropped.shim.get()).f_executable = new_reference(self.code());
            *dropped.hook.get() = (*self.hook.get()).take();
        }
        Some(DroppedWatch(dropped))
    }
}

impl Deref for DroppedWatch {
    type Target = Watch;

    #[inline]
    fn deref(&self) -> &Watch {
        &self.0
    }
}

impl Drop for DroppedWatch {
    #[inline] // or its symbol would be exported
    fn drop(&mut self) {
        // SAFETY: the reference to the code, the hook and the user data are its own, and released here. References from
        // `hook` are over, as nothing else has this any more.
        unsafe {
            decref(self.0.code());
            release_hook(self.0.hook.get_mut().take(), self.0.request().data);
        }
    }
}
