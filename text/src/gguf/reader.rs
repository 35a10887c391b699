//! The byte reader behind `gguf::read`: a cursor that knows how much of the file is left.

use super::{Metadata, Value, MAX_ELEMENTS, MAX_KEPT, MAX_KEY, MAX_PAIRS, MAX_STRING};
use crate::error::{quote, Error, Result};
use std::io::Read;

const TYPE_STRING: u32 = 8;
const TYPE_ARRAY: u32 = 9;

/// Bytes of a scalar type; None for strings, arrays and unknown types.
fn scalar_size(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

struct Cursor<R> {
    source: R,
    left: u64,
    kept: u64,
}

impl<R: Read> Cursor<R> {
    fn need(&self, bytes: u64, what: &str) -> Result<()> {
        if bytes > self.left {
            return Err(Error::format(format!(
                "GGUF {what} needs {bytes} bytes, but {} are left in the file",
                self.left
            )));
        }
        Ok(())
    }

    fn exact<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        self.need(N as u64, what)?;
        let mut bytes = [0; N];
        self.source
            .read_exact(&mut bytes)
            .map_err(|e| Error::format(format!("GGUF {what}: {e}")))?;
        self.left -= N as u64;
        Ok(bytes)
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.exact(what)?))
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.exact(what)?))
    }

    fn bytes(&mut self, length: u64, what: &str) -> Result<Vec<u8>> {
        self.need(length, what)?;
        let mut bytes = vec![0; length as usize];
        self.source
            .read_exact(&mut bytes)
            .map_err(|e| Error::format(format!("GGUF {what}: {e}")))?;
        self.left -= length;
        Ok(bytes)
    }

    fn skip(&mut self, length: u64, what: &str) -> Result<()> {
        self.need(length, what)?;
        let copied = std::io::copy(&mut (&mut self.source).take(length), &mut std::io::sink())
            .map_err(|e| Error::format(format!("GGUF {what}: {e}")))?;
        if copied != length {
            return Err(Error::format(format!("GGUF {what} ends early")));
        }
        self.left -= length;
        Ok(())
    }

    fn length(&mut self, most: u64, what: &str) -> Result<u64> {
        let length = self.u64(what)?;
        if length > most {
            return Err(Error::format(format!(
                "GGUF {what} has {length} bytes, the limit is {most}"
            )));
        }
        Ok(length)
    }

    fn keep(&mut self, bytes: u64) -> Result<()> {
        self.kept += bytes;
        if self.kept > MAX_KEPT {
            return Err(Error::format(format!(
                "the GGUF tokenizer takes more than {MAX_KEPT} bytes"
            )));
        }
        Ok(())
    }

    fn string(&mut self, most: u64, what: &str) -> Result<String> {
        let length = self.length(most, what)?;
        self.keep(length + std::mem::size_of::<String>() as u64)?;
        String::from_utf8(self.bytes(length, what)?)
            .map_err(|_| Error::format(format!("GGUF {what} is not UTF-8")))
    }

    fn scalar(&mut self, kind: u32, what: &str) -> Result<Value> {
        Ok(match kind {
            0 => Value::Int(self.exact::<1>(what)?[0].into()),
            1 => Value::Int(i8::from_le_bytes(self.exact(what)?).into()),
            2 => Value::Int(u16::from_le_bytes(self.exact(what)?).into()),
            3 => Value::Int(i16::from_le_bytes(self.exact(what)?).into()),
            4 => Value::Int(self.u32(what)?.into()),
            5 => Value::Int(i32::from_le_bytes(self.exact(what)?).into()),
            6 => Value::Float(f32::from_le_bytes(self.exact(what)?).into()),
            7 => match self.exact::<1>(what)?[0] {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                other => {
                    return Err(Error::format(format!("GGUF {what} is the boolean {other}")));
                }
            },
            10 => {
                let number = self.u64(what)?;
                Value::Int(i64::try_from(number).map_err(|_| {
                    Error::format(format!("GGUF {what} is {number}, beyond 63 bits"))
                })?)
            }
            11 => Value::Int(i64::from_le_bytes(self.exact(what)?)),
            12 => Value::Float(f64::from_le_bytes(self.exact(what)?)),
            other => {
                return Err(Error::format(format!(
                    "GGUF {what} has the unknown type {other}"
                )));
            }
        })
    }

    /// The head of an array: element type and a count that the rest of the file can hold.
    fn array_head(&mut self, what: &str) -> Result<(u32, u64)> {
        let kind = self.u32(what)?;
        let count = self.u64(what)?;
        let smallest = match kind {
            TYPE_STRING => 8,
            TYPE_ARRAY => {
                return Err(Error::format(format!("GGUF {what} is an array of arrays")));
            }
            _ => scalar_size(kind).ok_or_else(|| {
                Error::format(format!(
                    "GGUF {what} has elements of the unknown type {kind}"
                ))
            })?,
        };
        if count > self.left / smallest {
            return Err(Error::format(format!(
                "GGUF {what} claims {count} elements, but {} bytes are left in the file",
                self.left
            )));
        }
        Ok((kind, count))
    }

    fn array(&mut self, what: &str) -> Result<Value> {
        let (kind, count) = self.array_head(what)?;
        if count > MAX_ELEMENTS {
            return Err(Error::format(format!(
                "GGUF {what} has {count} elements, the limit is {MAX_ELEMENTS}"
            )));
        }
        let n = count as usize;
        self.keep(count * scalar_size(kind).unwrap_or(0).max(8))?;
        if kind == TYPE_STRING {
            let mut texts = Vec::with_capacity(n);
            for _ in 0..n {
                texts.push(self.string(MAX_STRING, what)?);
            }
            return Ok(Value::Texts(texts));
        }
        // Every scalar of one array has one type, so the first decides the container.
        match kind {
            6 | 12 => {
                let mut numbers = Vec::with_capacity(n);
                for _ in 0..n {
                    match self.scalar(kind, what)? {
                        Value::Float(number) => numbers.push(number as f32),
                        other => return Err(Metadata::wrong(what, "a number", &other)),
                    }
                }
                Ok(Value::Floats(numbers))
            }
            7 => {
                let mut bools = Vec::with_capacity(n);
                for _ in 0..n {
                    match self.scalar(kind, what)? {
                        Value::Bool(yes) => bools.push(yes),
                        other => return Err(Metadata::wrong(what, "a boolean", &other)),
                    }
                }
                Ok(Value::Bools(bools))
            }
            _ => {
                let mut numbers = Vec::with_capacity(n);
                for _ in 0..n {
                    match self.scalar(kind, what)? {
                        Value::Int(number) => numbers.push(number),
                        other => return Err(Metadata::wrong(what, "an integer", &other)),
                    }
                }
                Ok(Value::Ints(numbers))
            }
        }
    }

    fn value(&mut self, kind: u32, what: &str) -> Result<Value> {
        match kind {
            TYPE_STRING => Ok(Value::Text(self.string(MAX_STRING, what)?)),
            TYPE_ARRAY => self.array(what),
            _ => self.scalar(kind, what),
        }
    }

    fn skip_value(&mut self, kind: u32, what: &str) -> Result<()> {
        match kind {
            TYPE_STRING => {
                let length = self.u64(what)?;
                self.skip(length, what)
            }
            TYPE_ARRAY => {
                let (element, count) = self.array_head(what)?;
                if element == TYPE_STRING {
                    for _ in 0..count {
                        let length = self.u64(what)?;
                        self.skip(length, what)?;
                    }
                    return Ok(());
                }
                // array_head checked that the product fits into the file.
                self.skip(count * scalar_size(element).unwrap_or(0), what)
            }
            _ => self.scalar(kind, what).map(|_| ()),
        }
    }
}

/// Reads the metadata of a GGUF file of `size` bytes.
pub fn read(source: impl Read, size: u64) -> Result<Metadata> {
    let mut cursor = Cursor {
        source,
        left: size,
        kept: 0,
    };
    if cursor.exact::<4>("magic")? != *b"GGUF" {
        return Err(Error::format(
            "not a GGUF file: it does not begin with \"GGUF\"",
        ));
    }
    match cursor.u32("version")? {
        2 | 3 => {}
        other if other.swap_bytes() <= 3 => {
            return Err(Error::unsupported("this GGUF file is big-endian"));
        }
        other => {
            return Err(Error::unsupported(format!(
                "GGUF version {other}; versions 2 and 3 are supported"
            )));
        }
    }
    cursor.u64("tensor count")?;
    let pairs = cursor.u64("pair count")?;
    if pairs > MAX_PAIRS {
        return Err(Error::format(format!(
            "GGUF claims {pairs} key-values, the limit is {MAX_PAIRS}"
        )));
    }
    let mut metadata = Metadata::default();
    for i in 0..pairs {
        let key = cursor.string(MAX_KEY, &format!("key {i}"))?;
        let kind = cursor.u32("value type")?;
        let what = format!("value of {}", quote(&key));
        if key.starts_with("tokenizer.") || key == "general.architecture" {
            let value = cursor.value(kind, &what)?;
            if metadata.pairs.contains_key(&key) {
                return Err(Error::format(format!(
                    "GGUF key {} occurs twice",
                    quote(&key)
                )));
            }
            metadata.pairs.insert(key, value);
        } else {
            cursor.skip_value(kind, &what)?;
        }
    }
    Ok(metadata)
}
