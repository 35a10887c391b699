//! Reads files whole, of which each has a limit.

use crate::error::{quote_path, Code, Error, Result};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// No tokenizer.json comes near; reading more than this into memory is refused.
pub const MAX_FILE: u64 = 128 << 20;
/// Largest settings beside it. They list the added tokens once more.
pub const MAX_SETTINGS: u64 = 64 << 20;
/// Largest file of a chat template. What is rendered has a lower limit.
pub const MAX_TEMPLATE: u64 = 1 << 20;

/// Opens a file to read it; in the words of libprefix, which refuses the same. A named pipe has to be
/// refused below, not waited for; a device has no end.
pub fn open(path: &Path) -> Result<File> {
    let failed = |e| Error::io(path, &e);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        let message = format!("{} is not a regular file", quote_path(path));
        return Err(Error::new(Code::Io, message));
    }
    Ok(file)
}

pub fn is_gguf(path: &Path) -> Result<bool> {
    let mut magic = [0; 4];
    let mut file = open(path)?;
    match file.read_exact(&mut magic) {
        Ok(()) => Ok(magic == *b"GGUF"),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(Error::io(path, &e)),
    }
}

/// A whole text file of at most `most` bytes.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    let mut file = open(path)?.take(most + 1);
    let mut bytes = Vec::new();
    loop {
        if bytes.try_reserve((bytes.len() / 2).max(1 << 16)).is_err() {
            return Err(Error::new(
                Code::OutOfMemory,
                format!(
                    "there is no memory for {}, of which {} bytes are read",
                    quote_path(path),
                    bytes.len()
                ),
            ));
        }
        let room = bytes.capacity() - bytes.len();
        let got = file
            .by_ref()
            .take(room as u64)
            .read_to_end(&mut bytes)
            .map_err(|e| Error::io(path, &e))?;
        if got < room {
            break;
        }
    }
    if bytes.len() as u64 > most {
        return Err(Error::format(format!(
            "{} is larger than {most} bytes",
            quote_path(path)
        )));
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::format(format!("{} is not UTF-8", quote_path(path))))
}

/// The same, or None when there is no such file. A link that leads nowhere is there.
pub fn read_text_if_there(path: &Path, most: u64) -> Result<Option<String>> {
    match read_text(path, most) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.code == Code::NotFound && path.symlink_metadata().is_err() => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use std::ffi::CString;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_device_and_a_named_pipe_are_refused_and_a_link_to_a_file_is_not() {
        let folder = std::env::temp_dir().join(format!("prefix-load-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (pipe, link) = (folder.join("pipe"), folder.join("link"));
        let name = CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the path ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/wordpiece.json");
        symlink(file, &link).unwrap();
        let linked = load::open(&link).map(|source| source.kind);
        let refused = [Path::new("/dev/null"), &pipe].map(|path| load::open(path).err());
        symlink(&pipe, folder.join("tokenizer.json")).unwrap();
        let inside = load::open(&folder).err();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(linked.unwrap(), "json");
        let names = ["\"/dev/null\"".to_string(), quote_path(&pipe)];
        let all = names.into_iter().zip(refused);
        let of_folder = (quote_path(&folder.join("tokenizer.json")), inside);
        for (name, error) in all.chain([of_folder]) {
            let error = error.unwrap();
            assert_eq!(error.code, Code::Io);
            assert_eq!(error.message, format!("{name} is not a regular file"));
        }
    }
}
