//! Bodies of requests: as many bytes as the service takes, in the time that it gives, and the fields in them.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};
use axum::http::HeaderMap;
use futures_util::StreamExt;

use crate::failure::{Failure, Kind, Result};
use crate::fields::Fields;

/// How much of a body is taken, and how long it may take to come.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub bytes: usize,
    pub time: Duration,
}

/// Why a body does not come to its end: a connection that waits has its place.
#[derive(Debug)]
pub struct TooSlow {
    pub bytes: u64,
    pub time: Duration,
}

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let TooSlow { bytes, time } = self;
        write!(
            f,
            "{bytes} bytes of the body came in {time:.1?}, and another connection waits for the place"
        )
    }
}

impl Error for TooSlow {}

/// What is read beyond the limit of a body that nobody wants.
const SURPLUS: usize = 64 << 20;

/// The most memory that is taken for a body before it is there.
const AT_ONCE: usize = 4 << 20;

/// The fields of the JSON in a body.
pub async fn read(headers: &HeaderMap, body: Body, limits: Limits) -> Result<Fields> {
    let bytes = match tokio::time::timeout(limits.time, collect(headers, body, limits.bytes)).await
    {
        Ok(bytes) => bytes?,
        Err(_) => {
            let message = format!("the body did not come within {:?}", limits.time);
            return Err(Failure::new(Kind::BodyTimeout, message));
        }
    };
    // Editors and shells of Windows write it in front of UTF-8.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let wrong = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => None,
        Some(b'[') => Some("the body is a list; an object of fields is asked for".into()),
        Some(_) => Some(match headers.get(CONTENT_ENCODING) {
            Some(coding) => {
                format!("the body is not a JSON object; content-encoding {coding:?} is not read")
            }
            None => "the body is not a JSON object".into(),
        }),
        None => Some("the body is empty; a JSON object is asked for".to_string()),
    };
    if let Some(message) = wrong {
        return Err(Failure::new(Kind::Body, message));
    }
    serde_json::from_slice(bytes)
        .map_err(|why| Failure::new(Kind::Body, format!("the body is not what is asked: {why}")))
}

async fn collect(headers: &HeaderMap, body: Body, limit: usize) -> Result<Vec<u8>> {
    let announced = length_of(headers);
    let mut parts = body.into_data_stream();
    if announced.is_some_and(|announced| announced > limit) {
        drop_rest(headers, parts, limit).await;
        return Err(too_large(limit));
    }
    // More than that only as it comes: with a limit beyond the memory one head would end the service.
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0).min(AT_ONCE));
    while let Some(part) = parts.next().await {
        let part = part.map_err(|why| broken(&why))?;
        if bytes.len() + part.len() > limit {
            drop_rest(headers, parts, limit).await;
            return Err(too_large(limit));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

fn broken(why: &axum::Error) -> Failure {
    match why.source().and_then(|why| why.downcast_ref::<TooSlow>()) {
        Some(slow) => Failure::new(Kind::BodyTimeout, slow.to_string()),
        None => Failure::new(Kind::Body, format!("the body cannot be read: {why}")),
    }
}

/// Reads what a client sends with a request that is refused: whose connection is closed while he sends finds it broken,
/// and loses the answer.
pub async fn pass_over(headers: &HeaderMap, body: Body, limits: Limits) {
    let all = drop_rest(headers, body.into_data_stream(), limits.bytes);
    let _ = tokio::time::timeout(limits.time, all).await;
}

async fn drop_rest(headers: &HeaderMap, mut parts: BodyDataStream, limit: usize) {
    // Who asks first has sent nothing, and need not.
    if headers.contains_key(EXPECT) {
        return;
    }
    let mut left = limit.saturating_add(SURPLUS);
    if length_of(headers).is_some_and(|length| length > left) {
        return;
    }
    while let Some(Ok(part)) = parts.next().await {
        if part.len() > left {
            return;
        }
        left -= part.len();
    }
}

fn length_of(headers: &HeaderMap) -> Option<usize> {
    let value = headers.get(CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

fn too_large(limit: usize) -> Failure {
    let message = format!("the body is longer than {limit} bytes");
    Failure::new(Kind::TooLarge, message)
}
