//! Models that are not in a file system.

use std::fmt;
use std::sync::Arc;

use prefix_sys as sys;

use crate::error::{call, Result};
use crate::raw::Handle;

/// The files of a model in memory: those of a Hugging Face directory by their names, or one with a name ending
/// with `.gguf`. Nothing is copied.
///
/// ```no_run
/// # fn main() -> prefix::Result<()> {
/// # let fetched = Vec::new();
/// let mut source = prefix::Source::new()?;
/// source.add("model.gguf", fetched)?;
/// let engine = prefix::Engine::load_source(&source, None)?.wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Source {
    handle: Handle<sys::prefix_source>,
    kept: Vec<Bytes>,
}

/// The bytes of a file, kept for as long as they are read: `Vec<u8>`, `Arc<[u8]>`, `&'static [u8]`.
#[derive(Clone)]
pub struct Bytes(Kept);

#[derive(Clone)]
enum Kept {
    Owned(Arc<Vec<u8>>),
    Shared(Arc<[u8]>),
    Static(&'static [u8]),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match &self.0 {
            Kept::Owned(bytes) => bytes,
            Kept::Shared(bytes) => bytes,
            Kept::Static(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.get().len())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Kept::Owned(Arc::new(bytes)))
    }
}

impl From<Arc<[u8]>> for Bytes {
    fn from(bytes: Arc<[u8]>) -> Bytes {
        Bytes(Kept::Shared(bytes))
    }
}

impl From<&'static [u8]> for Bytes {
    fn from(bytes: &'static [u8]) -> Bytes {
        Bytes(Kept::Static(bytes))
    }
}

impl Source {
    /// One without files.
    pub fn new() -> Result<Source> {
        crate::library::ready()?;
        Ok(Source {
            // Safety: writes a handle.
            handle: Handle::create(|out, err| unsafe { sys::prefix_source_create(out, err) })?,
            kept: Vec::new(),
        })
    }

    /// Adds a file; a name may not be there already.
    pub fn add(&mut self, name: &str, bytes: impl Into<Bytes>) -> Result<()> {
        let bytes = bytes.into();
        let data = bytes.get();
        // Safety: a live handle, a text and an array with their lengths. Who loads from the source has a clone
        // of `kept` until the load has ended, or its engine was released: no batch of one that loads holds it.
        call(|err| unsafe {
            sys::prefix_source_add_buffer(
                self.handle.get(),
                name.as_ptr().cast(),
                name.len(),
                data.as_ptr().cast(),
                data.len(),
                err,
            )
        })?;
        self.kept.push(bytes);
        Ok(())
    }

    pub(crate) fn raw(&self) -> *mut sys::prefix_source {
        self.handle.get()
    }

    pub(crate) fn kept(&self) -> Vec<Bytes> {
        self.kept.clone()
    }
}
