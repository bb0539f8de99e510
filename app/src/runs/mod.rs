//! What came back: runs, the plan that they are of, what is kept of them and how they are told.

pub mod compared;
pub mod damage;
pub mod headline;
pub mod measurement;
pub mod now;
pub mod replay;
pub mod run;
pub mod shown;
pub mod sweep;
