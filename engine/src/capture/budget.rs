//! How much memory a capture may take while it is read.
//!
//! A file comes from outside, and a few kilobytes of it can unpack to gigabytes. So reading takes all that
//! grows out of one budget, which follows from what a file of that length can honestly hold. Worked number:
//! a span takes 49 bytes in memory and 5 or more in a file, so 48 bytes for each byte of the file are ample;
//! what is small in any case has 48 MiB.

use std::mem::{needs_drop, size_of};

use serde::de::DeserializeOwned;

/// For what does not grow with the file.
const BASE: u64 = 48 << 20;
/// For each byte of the file.
const PER_BYTE: u64 = 48;
/// A vector that grows by doubling holds up to twice what it was filled with.
const GROWTH: u64 = 2;
/// While it moves to a place of twice the size, the old one lies beside the new: as much again as it is filled with.
const MOVING: u64 = 1;
/// Inside of an element lie numbers of 4 bytes, of one byte or more in the file, and text.
const INSIDE: u64 = GROWTH * 4;
/// A value that owns lists, such as the counts of launches: an empty list of 24 bytes takes one in the file.
const EMPTY: u64 = 24;

/// Why something cannot be read.
pub(super) type Why = String;

/// What reading may still take, in bytes.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    /// The budget of a file of `length` bytes.
    pub(super) fn of(length: usize) -> Self {
        Self { left: BASE + PER_BYTE * length as u64 }
    }

    /// Whether `bytes` could be taken: for what is let go before the next is read.
    pub(super) fn allows(&self, bytes: u64) -> Result<(), Why> {
        if bytes <= self.left {
            Ok(())
        } else {
            Err("it unpacks to more than a file of this length can hold".to_owned())
        }
    }

    /// Takes `bytes` for good.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Why> {
        self.allows(bytes)?;
        self.left -= bytes;
        Ok(())
    }

    /// Takes what a vector may hold that is filled with `bytes`, for good, if it can also grow to that.
    pub(super) fn take_growing(&mut self, bytes: u64) -> Result<(), Why> {
        self.allows((GROWTH + MOVING).saturating_mul(bytes))?;
        self.take(GROWTH * bytes)
    }

    /// Gives back what was taken and is let go.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.left += bytes;
    }
}

/// The postcard form of a struct, read field by field, so that the length of a list is known before its
/// elements are made.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    budget: &'a mut Budget,
}

impl<'a> Fields<'a> {
    pub(super) fn of(raw: &'a [u8], budget: &'a mut Budget) -> Self {
        Self { rest: raw, budget }
    }

    /// The next field, which is no list and holds none but small ones.
    pub(super) fn value<T: DeserializeOwned>(&mut self) -> Result<T, Why> {
        if needs_drop::<T>() {
            self.budget.take_growing(EMPTY * self.rest.len() as u64)?;
        }
        let (value, rest) = postcard::take_from_bytes(self.rest).map_err(|error| unparsed(&error))?;
        self.rest = rest;
        Ok(value)
    }

    /// The next field, which is text.
    pub(super) fn text(&mut self) -> Result<String, Why> {
        let bytes: Vec<u8> = self.list()?;
        String::from_utf8(bytes).map_err(|_| "a text in it is not UTF-8".to_owned())
    }

    /// The next field, which is a list.
    pub(super) fn list<T: DeserializeOwned>(&mut self) -> Result<Vec<T>, Why> {
        let (count, elements) = postcard::take_from_bytes::<u64>(self.rest).map_err(|error| unparsed(&error))?;
        // An element takes a byte at least.
        if count > elements.len() as u64 {
            return Err(format!("it promises {count} elements in {} bytes", elements.len()));
        }
        let inside = if needs_drop::<T>() { INSIDE * elements.len() as u64 } else { 0 };
        self.budget.take(inside)?;
        self.budget.take_growing(count * size_of::<T>() as u64)?;
        let (list, rest) = postcard::take_from_bytes(self.rest).map_err(|error| unparsed(&error))?;
        self.rest = rest;
        Ok(list)
    }

    /// The next field, which is a list of `promised` elements.
    pub(super) fn list_of<T: DeserializeOwned>(&mut self, promised: u64) -> Result<Vec<T>, Why> {
        let (count, _) = postcard::take_from_bytes::<u64>(self.rest).map_err(|error| unparsed(&error))?;
        if count != promised {
            return Err(format!("it holds {count} where {promised} are promised"));
        }
        self.list()
    }

    /// As [`Self::list_of`] for elements that hold lists and text: what could have been inside of them, by the length of
    /// the rest of the chunk, is given back for what is, which `inside` tells of each. A long list of small ones would
    /// else use up what the file has.
    pub(super) fn list_holding<T: DeserializeOwned>(
        &mut self,
        promised: u64,
        inside: impl Fn(&T) -> u64,
    ) -> Result<Vec<T>, Why> {
        let before = self.budget.left;
        let list: Vec<T> = self.list_of(promised)?;
        let held = GROWTH * promised * size_of::<T>() as u64 + list.iter().map(inside).sum::<u64>();
        self.budget.left = before.saturating_sub(held);
        Ok(list)
    }
}

fn unparsed(error: &postcard::Error) -> Why {
    format!("it does not parse: {error}")
}
