//! The cache in a file.

use std::path::Path;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::error::{call, Result};
use crate::raw::{mirror, path_text};
use crate::{Engine, Namespace};

mirror! {
    /// What was saved or loaded.
    SnapshotInfo = prefix_snapshot_info {
        /// Namespaces with something in them.
        namespaces,
        /// Nodes of the tree.
        nodes,
        /// Tokens.
        tokens,
        /// States of recurrent layers.
        states,
        /// Saved: of the file.
        bytes,
        /// Loaded: for which there was no room, or that were damaged.
        skipped_tokens,
    }
}

impl Engine {
    /// Saves what these namespaces (none given: all) have in the cache, so that a later process starts warm. The
    /// engine goes on meanwhile, and the file appears when it is complete.
    ///
    /// Fails with [`Status::Io`](crate::Status::Io), with
    /// [`Status::InvalidArgument`](crate::Status::InvalidArgument) when a folder, a device or a pipe has that
    /// name, and with [`Status::Misuse`](crate::Status::Misuse) when another save to the same path runs or the
    /// engine shares nothing.
    pub fn save_snapshot(
        &self,
        path: impl AsRef<Path>,
        namespaces: &[Namespace<'_>],
    ) -> Result<SnapshotInfo> {
        let path = path_text(path.as_ref(), "prefix_snapshot_save")?;
        let ids: Vec<i32> = namespaces.iter().map(Namespace::id).collect();
        let mut out = sys::prefix_snapshot_info::init();
        // Safety: a live handle, text and array with their lengths, a struct with its size; also below.
        call(|err| unsafe {
            sys::prefix_snapshot_save(
                self.raw(),
                path.as_ptr().cast(),
                path.len(),
                ids.as_ptr(),
                ids.len(),
                &mut out,
                err,
            )
        })?;
        Ok(out.into())
    }

    /// Loads a snapshot beside what is in the cache, without evicting anything: it begins with what was used
    /// last, and ends when the cache is full. Every page is checked; what is damaged is left out.
    ///
    /// Fails with [`Status::NotFound`](crate::Status::NotFound), [`Status::Io`](crate::Status::Io),
    /// [`Status::Format`](crate::Status::Format) for a damaged file, and
    /// [`Status::IncompatibleSnapshot`](crate::Status::IncompatibleSnapshot) for one of another model, number
    /// type, device or instruction-set level; nothing is loaded then.
    pub fn load_snapshot(&self, path: impl AsRef<Path>) -> Result<SnapshotInfo> {
        let path = path_text(path.as_ref(), "prefix_snapshot_load")?;
        let mut out = sys::prefix_snapshot_info::init();
        call(|err| unsafe {
            sys::prefix_snapshot_load(self.raw(), path.as_ptr().cast(), path.len(), &mut out, err)
        })?;
        Ok(out.into())
    }
}
