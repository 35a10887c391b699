//! prefix_tokenizer_*: loading, encoding, decoding, facts about tokens.

use super::handles::{self, PrefixTokenizer};
use super::out::Buffer;
use super::{bytes_in, entry, known_flags, out, set, slice_in, text_in, PrefixError};
use crate::error::{quote, Code, Error, Result};
use crate::load;
use crate::text::{EncodeOptions, Text, MAX_TEXT};
use serde_json::json;
use std::path::PathBuf;

pub const PREFIX_TEXT_ABI_VERSION: i32 = 1;
pub const PREFIX_ENCODE_SPECIAL: i32 = 1;
pub const PREFIX_ENCODE_LITERAL: i32 = 2;
pub const PREFIX_ENCODE_CONTINUES: i32 = 4;
pub const PREFIX_DECODE_SKIP_SPECIAL: i32 = 1;

/// [any thread] See prefix_text.h, as for all functions here.
#[no_mangle]
pub extern "C" fn prefix_text_abi_version() -> i32 {
    PREFIX_TEXT_ABI_VERSION
}

#[no_mangle]
pub extern "C" fn prefix_text_version_string() -> *const u8 {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr()
}

fn path_in(bytes: &[u8]) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(Error::argument("path is empty or contains a zero byte"));
    }
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(bytes)))
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_open(
    path: *const u8,
    path_len: usize,
    out: *mut *mut PrefixTokenizer,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_open", || {
            if out.is_null() {
                return Err(Error::argument("out is NULL"));
            }
            let path = path_in(bytes_in(path, path_len, "path")?)?;
            let text = Text::new(load::open(&path)?)?;
            set(out, handles::add_text(text)?, "out")
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_from_json(
    tokenizer_json: *const u8,
    tokenizer_json_len: usize,
    config_json: *const u8,
    config_json_len: usize,
    out: *mut *mut PrefixTokenizer,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_from_json", || {
            if out.is_null() {
                return Err(Error::argument("out is NULL"));
            }
            let json = text_in(tokenizer_json, tokenizer_json_len, "tokenizer_json")?;
            let config = if config_json.is_null() && config_json_len == super::PREFIX_NUL {
                ""
            } else {
                text_in(config_json, config_json_len, "config_json")?
            };
            let config = Some(config).filter(|c| !c.is_empty());
            let text = Text::new(load::from_texts(json, config)?)?;
            set(out, handles::add_text(text)?, "out")
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_retain(
    tokenizer: *mut PrefixTokenizer,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_retain", || {
            handles::retain_text(tokenizer)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_release(tokenizer: *mut PrefixTokenizer) {
    unsafe {
        entry(std::ptr::null_mut(), "prefix_tokenizer_release", || {
            handles::release_text(tokenizer);
            Ok(())
        });
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_info_json(
    tokenizer: *const PrefixTokenizer,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_info_json", || {
            let text = handles::text(tokenizer)?;
            let special: serde_json::Map<String, serde_json::Value> = text
                .roles()
                .iter()
                .map(|(role, id, token)| (role.to_string(), json!({"id": id, "text": token})))
                .collect();
            let info = json!({
                "source": text.kind(),
                "vocab_size": text.vocab_size(),
                "special_tokens": special,
                "end_tokens": text.ends(),
                "chat_templates": text.templates.names(),
            });
            out::text(&info.to_string(), buf, cap, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_vocab_size(
    tokenizer: *const PrefixTokenizer,
    size: *mut i64,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_vocab_size", || {
            let text = handles::text(tokenizer)?;
            set(size, i64::from(text.vocab_size()), "size")
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_special_token(
    tokenizer: *const PrefixTokenizer,
    role: *const u8,
    role_len: usize,
    token: *mut i32,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_special_token", || {
            let text = handles::text(tokenizer)?;
            let role = text_in(role, role_len, "role")?;
            let (id, _) = text.roles().get(role).ok_or_else(|| {
                Error::not_found(format!(
                    "the tokenizer has no special token for {}",
                    quote(role)
                ))
            })?;
            set(token, id as i32, "token")
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_end_tokens(
    tokenizer: *const PrefixTokenizer,
    out: *mut i32,
    capacity: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_end_tokens", || {
            let text = handles::text(tokenizer)?;
            out::array(text.ends(), out, capacity, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_token_bytes(
    tokenizer: *const PrefixTokenizer,
    token: i32,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_token_bytes", || {
            let text = handles::text(tokenizer)?;
            out::bytes(&text.token_bytes(token)?, buf, cap, needed).map(|_| ())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_token_id(
    tokenizer: *const PrefixTokenizer,
    text: *const u8,
    text_len: usize,
    token: *mut i32,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_token_id", || {
            let tokenizer = handles::text(tokenizer)?;
            let text = text_in(text, text_len, "text")?;
            let id = tokenizer.token_id(text).ok_or_else(|| {
                Error::not_found(format!("the vocabulary has no token {}", quote(text)))
            })?;
            set(token, id as i32, "token")
        })
    }
}

fn encode_options(flags: i32) -> Result<EncodeOptions> {
    known_flags(
        flags,
        PREFIX_ENCODE_SPECIAL | PREFIX_ENCODE_LITERAL | PREFIX_ENCODE_CONTINUES,
    )?;
    Ok(EncodeOptions {
        special: flags & PREFIX_ENCODE_SPECIAL != 0,
        literal: flags & PREFIX_ENCODE_LITERAL != 0,
        continues: flags & PREFIX_ENCODE_CONTINUES != 0,
    })
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_encode(
    tokenizer: *const PrefixTokenizer,
    text: *const u8,
    text_len: usize,
    flags: i32,
    out: *mut i32,
    capacity: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_encode", || {
            let tokenizer = handles::text(tokenizer)?;
            let options = encode_options(flags)?;
            let tokens = tokenizer.encode(text_in(text, text_len, "text")?, options)?;
            out::array(&tokens, out, capacity, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_encode_offsets(
    tokenizer: *const PrefixTokenizer,
    text: *const u8,
    text_len: usize,
    flags: i32,
    out: *mut i32,
    capacity: usize,
    needed: *mut usize,
    offsets: *mut i64,
    capacity_offsets: usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_encode_offsets", || {
            let tokenizer = handles::text(tokenizer)?;
            let options = encode_options(flags)?;
            let encoded = tokenizer.encode_offsets(text_in(text, text_len, "text")?, options)?;
            let pairs: Vec<i64> = encoded
                .offsets
                .iter()
                .flat_map(|(begin, end)| [*begin as i64, *end as i64])
                .collect();
            let buffer = Buffer {
                name: "out",
                at: out,
                capacity,
            };
            let ends = Buffer {
                name: "offsets",
                at: offsets,
                capacity: capacity_offsets,
            };
            out::arrays(needed, &[&buffer.of(&encoded.tokens), &ends.of(&pairs)])
        })
    }
}

/// Checks that offsets cut `bytes` bytes into texts, one after the other.
pub(super) fn check_cuts(offsets: &[i64], bytes: usize) -> Result<()> {
    let wrong = |i: usize| {
        Error::range(format!(
            "offsets[{i}] is {}; offsets begin at 0, never fall and end at {bytes}",
            offsets[i]
        ))
    };
    let Some(last) = offsets.len().checked_sub(1) else {
        return Err(Error::argument(
            "offsets is empty; n texts need n + 1 offsets",
        ));
    };
    if offsets[0] != 0 {
        return Err(wrong(0));
    }
    if let Some(i) = (1..offsets.len()).find(|i| offsets[*i] < offsets[*i - 1]) {
        return Err(wrong(i));
    }
    if usize::try_from(offsets[last]) != Ok(bytes) {
        return Err(wrong(last));
    }
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_encode_batch(
    tokenizer: *const PrefixTokenizer,
    text: *const u8,
    text_len: usize,
    offsets: *const i64,
    n_offsets: usize,
    flags: i32,
    out: *mut i32,
    capacity: usize,
    needed: *mut usize,
    token_offsets: *mut i64,
    capacity_offsets: usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_encode_batch", || {
            let tokenizer = handles::text(tokenizer)?;
            let options = encode_options(flags)?;
            let bytes = bytes_in(text, text_len, "text")?;
            let cuts = slice_in(offsets, n_offsets, "offsets")?;
            check_cuts(cuts, bytes.len())?;
            let mut ids = Vec::new();
            let mut ends = vec![0i64];
            for (i, cut) in cuts.windows(2).enumerate() {
                let part =
                    std::str::from_utf8(&bytes[cut[0] as usize..cut[1] as usize]).map_err(|e| {
                        Error::new(
                            Code::InvalidUtf8,
                            format!("text {i} is not UTF-8 from byte {} on", e.valid_up_to()),
                        )
                    })?;
                let tokens = tokenizer
                    .encode(part, options)
                    .map_err(|e| e.within(&format!("text {i}")))?;
                ids.extend(tokens);
                if ids.len() > MAX_TEXT {
                    return Err(Error::range(format!(
                        "the batch has more than {MAX_TEXT} tokens; use several calls"
                    )));
                }
                ends.push(ids.len() as i64);
            }
            let buffer = Buffer {
                name: "out",
                at: out,
                capacity,
            };
            let cuts = Buffer {
                name: "token_offsets",
                at: token_offsets,
                capacity: capacity_offsets,
            };
            out::arrays(needed, &[&buffer.of(&ids), &cuts.of(&ends)])
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_tokenizer_decode(
    tokenizer: *const PrefixTokenizer,
    tokens: *const i32,
    n_tokens: usize,
    flags: i32,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_tokenizer_decode", || {
            let tokenizer = handles::text(tokenizer)?;
            known_flags(flags, PREFIX_DECODE_SKIP_SPECIAL)?;
            let tokens = slice_in(tokens, n_tokens, "tokens")?;
            let text = tokenizer.decode(tokens, flags & PREFIX_DECODE_SKIP_SPECIAL != 0)?;
            out::text(&text, buf, cap, needed)
        })
    }
}
