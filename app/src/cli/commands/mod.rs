//! The commands, each in a file of its own.

pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod list;
pub(crate) mod pictures;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod sweep;
pub(crate) mod verify;
pub(crate) mod view;
