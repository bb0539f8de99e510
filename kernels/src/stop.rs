//! Whether the caller still wants what is being done. It is asked before every wait for the GPU and every compilation,
//! and all the while that they last.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use crate::error::KernelError;

/// Says whether to stop, on any thread: NVRTC may ask on its own.
pub(crate) type Asked = Arc<dyn Fn() -> bool + Send + Sync>;

/// The question, once somebody has one.
#[derive(Default)]
pub(crate) struct Stop(RefCell<Option<Asked>>);

impl Stop {
    /// From now on `asked` says whether to stop.
    pub(crate) fn when(&self, asked: impl Fn() -> bool + Send + Sync + 'static) {
        *self.0.borrow_mut() = Some(Arc::new(asked));
    }

    /// The question itself.
    pub(crate) fn asked(&self) -> Option<Asked> {
        self.0.borrow().clone()
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(|asked| asked())
    }

    /// [`KernelError::Stopped`] once somebody asked.
    pub(crate) fn check(&self) -> Result<(), KernelError> {
        if self.is_asked() { Err(KernelError::Stopped) } else { Ok(()) }
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("asked", &self.is_asked()).finish()
    }
}
