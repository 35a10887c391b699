//! What ZeroMQ's sockets say to each other: ZMTP 3.0 (RFC 23) with the mechanism NULL, for sockets that listen.
//!
//! ```text
//!   both    signature, version, mechanism     64 bytes
//!   both    READY, with the type of socket    a command
//!   then    frames                            flags: 1 more follow, 2 a long length, 4 a command
//!
//!   [flags][length: 1 byte, or 8 of a long one][body]
//! ```
//!
//! Written here since the crates for it take any length that a peer announces, and reserve the memory at once: nine
//! bytes from outside end the process. Here a frame of a peer, who has little to say, has at most [`FRAME`] bytes.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How long a peer may take to say hello, or not read.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Topics and numbers are short.
const FRAME: usize = 1024;
const PARTS: usize = 4;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What a peer says.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    Message(Vec<Vec<u8>>),
    /// It wants to know whether anybody is there, and gets these bytes.
    Ping(Vec<u8>),
    Closed,
}

/// Reads what a peer says. Its futures may be dropped at any time: what has come stays in the buffer.
#[derive(Debug)]
pub struct Reader<S> {
    stream: S,
    buffer: Vec<u8>,
    parts: Vec<Vec<u8>>,
}

struct Frame {
    flags: u8,
    body: Vec<u8>,
}

/// A message as its bytes.
pub fn message(parts: &[&[u8]]) -> Vec<u8> {
    let size: usize = parts.iter().map(|part| part.len() + 9).sum();
    let mut out = Vec::with_capacity(size);
    for (i, part) in parts.iter().enumerate() {
        let more = if i + 1 < parts.len() { MORE } else { 0 };
        frame(&mut out, more, part);
    }
    out
}

/// The answer to [`Heard::Ping`].
pub fn pong(context: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame(&mut out, COMMAND, &[b"\x04PONG", context].concat());
    out
}

fn frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => out.extend([flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend((body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

impl<S: AsyncRead + Unpin> Reader<S> {
    pub fn new(stream: S) -> Reader<S> {
        Reader {
            stream,
            buffer: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Says hello, as a socket of the type `own` to one of the types `peers`.
    pub async fn greet<W: AsyncWrite + Unpin>(
        &mut self,
        out: &mut W,
        own: &str,
        peers: &[&str],
    ) -> io::Result<()> {
        let mut greeting = [0; 64];
        greeting[0] = 0xff;
        greeting[9] = 0x7f;
        greeting[10] = 3; // the version; 3.0, to which newer ones step down
        greeting[12..16].copy_from_slice(b"NULL");
        out.write_all(&greeting).await?;
        while self.buffer.len() < greeting.len() {
            if !self.fill().await? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let theirs: Vec<u8> = self.buffer.drain(..greeting.len()).collect();
        if theirs[0] != 0xff || theirs[9] & 1 == 0 || theirs[10] < 3 {
            return Err(wrong("not ZMTP 3"));
        }
        if theirs[12..32] != greeting[12..32] {
            return Err(wrong("another mechanism than NULL"));
        }
        let mut ready = b"\x05READY".to_vec();
        property(&mut ready, "Socket-Type", own.as_bytes());
        let mut bytes = Vec::new();
        frame(&mut bytes, COMMAND, &ready);
        out.write_all(&bytes).await?;
        let Some(frame) = self.frame().await? else {
            return Err(ErrorKind::UnexpectedEof.into());
        };
        let kind = match frame.flags & COMMAND {
            0 => None,
            _ => socket_type(&frame.body),
        };
        match kind {
            Some(kind) if peers.iter().any(|peer| peer.as_bytes() == kind) => Ok(()),
            _ => Err(wrong("not a socket that belongs to this one")),
        }
    }

    /// What it says next.
    pub async fn hear(&mut self) -> io::Result<Heard> {
        while let Some(frame) = self.frame().await? {
            if frame.flags & COMMAND != 0 {
                if let Some(ping) = frame.body.strip_prefix(b"\x04PING") {
                    // Behind two bytes of a time come at most 16 that want to come back.
                    let context = ping.get(2..).unwrap_or(&[]);
                    return Ok(Heard::Ping(context[..context.len().min(16)].to_vec()));
                }
                continue;
            }
            if self.parts.len() == PARTS {
                return Err(wrong("a message of too many parts"));
            }
            self.parts.push(frame.body);
            if frame.flags & MORE == 0 {
                return Ok(Heard::Message(std::mem::take(&mut self.parts)));
            }
        }
        Ok(Heard::Closed)
    }

    /// `None` when the peer has closed.
    async fn frame(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// A frame that is whole already.
    fn take(&mut self) -> io::Result<Option<Frame>> {
        let Some(&flags) = self.buffer.first() else {
            return Ok(None);
        };
        let (head, length) = if flags & LONG == 0 {
            let Some(&length) = self.buffer.get(1) else {
                return Ok(None);
            };
            (2, u64::from(length))
        } else {
            let Some(length) = self.buffer.get(1..9) else {
                return Ok(None);
            };
            let length = length
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte));
            (9, length)
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > FRAME {
            return Err(wrong("a frame that is too long"));
        }
        if self.buffer.len() < head + length {
            return Ok(None);
        }
        let body = self.buffer[head..head + length].to_vec();
        self.buffer.drain(..head + length);
        Ok(Some(Frame { flags, body }))
    }

    /// False at the end.
    async fn fill(&mut self) -> io::Result<bool> {
        self.buffer.reserve(FRAME);
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

fn property(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.push(name.len() as u8);
    out.extend(name.as_bytes());
    out.extend((value.len() as u32).to_be_bytes());
    out.extend(value);
}

/// The type that a READY names.
fn socket_type(body: &[u8]) -> Option<&[u8]> {
    let mut rest = body.strip_prefix(b"\x05READY")?;
    while let Some((&length, after)) = rest.split_first() {
        let (name, after) = after.split_at_checked(usize::from(length))?;
        let (length, after) = after.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (value, after) = after.split_at_checked(length)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return Some(value);
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn heard(bytes: &[u8]) -> io::Result<Heard> {
        Reader::new(bytes).hear().await
    }

    #[tokio::test]
    async fn messages_come_as_they_were_sent() {
        let long = vec![7; 300];
        let bytes = message(&[b"", b"a", &long]);
        let mut reader = Reader::new(&bytes[..]);
        let want = vec![vec![], b"a".to_vec(), long];
        assert_eq!(reader.hear().await.unwrap(), Heard::Message(want));
        assert_eq!(reader.hear().await.unwrap(), Heard::Closed);
    }

    #[tokio::test]
    async fn what_a_peer_may_not_say_is_refused_before_it_takes_memory() {
        for bytes in [
            vec![LONG, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            vec![LONG, 0, 0, 0, 0, 0, 0, 4, 1],
            message(&[b"1", b"2", b"3", b"4", b"5"]),
        ] {
            let error = heard(&bytes).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
        }
        let mut ping = Vec::new();
        frame(&mut ping, COMMAND, b"\x04PING\x00\x01abc");
        assert_eq!(heard(&ping).await.unwrap(), Heard::Ping(b"abc".to_vec()));
        // Cut off: the end, and no message.
        assert_eq!(heard(&[0, 5, 1]).await.unwrap(), Heard::Closed);
    }

    #[tokio::test]
    async fn only_its_own_kind_is_greeted() {
        for (kind, good) in [("SUB", true), ("REQ", false), ("SUBS", false)] {
            let mut said = vec![0; 64];
            said[0] = 0xff;
            said[9] = 0x7f;
            said[10] = 3;
            said[12..16].copy_from_slice(b"NULL");
            let mut ready = b"\x05READY".to_vec();
            property(&mut ready, "Identity", b"me");
            property(&mut ready, "Socket-Type", kind.as_bytes());
            frame(&mut said, COMMAND, &ready);
            let mut out = Vec::new();
            let greeted = Reader::new(&said[..])
                .greet(&mut out, "PUB", &["SUB"])
                .await;
            assert_eq!(greeted.is_ok(), good, "{kind}");
            for cut in 0..said.len() {
                let mut reader = Reader::new(&said[..cut]);
                assert!(reader
                    .greet(&mut Vec::new(), "PUB", &["SUB"])
                    .await
                    .is_err());
            }
        }
    }

    #[test]
    fn lengths_that_lie_name_no_socket() {
        for body in [
            &b"\x05READY\xff"[..],
            b"\x05READY\x01a\xff\xff\xff\xff",
            b"",
            b"\x05READY\x01a",
        ] {
            assert_eq!(socket_type(body), None);
        }
    }
}
