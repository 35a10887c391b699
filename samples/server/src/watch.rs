//! What is kept and told of each request: its name, its answer in /metrics, and a line for the operator.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{HeaderMap, HeaderName, CONNECTION};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;

use crate::app::{App, Shared};
use crate::dialect::Dialect;
use crate::failure::{Failure, Kind};
use crate::ids;
use crate::say::say;

/// By which clients and proxies find a request in logs; one that a request brings is kept.
const NAME: HeaderName = HeaderName::from_static("x-request-id");
/// Bytes of such a name, and characters of a path that are shown.
const LONGEST: usize = 128;

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub Option<SocketAddr>);

/// A panic is an answer, too.
pub async fn watch(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or("other", MatchedPath::as_str).to_string();
    let mut visit = Visit::new(&app, &request);
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answer.unwrap_or_else(|_| {
        Dialect::OpenAi.response(Failure::internal("it gave up in the middle of the request"))
    });
    let code = response.status().as_u16();
    app.metrics.answered(&path, code, visit.begin.elapsed());
    visit.is_answered = true;
    visit.tell_answer(code, response.extensions().get());
    let headers = response.headers_mut();
    headers.insert(NAME, visit.name.clone());
    if app.gate.is_refusing() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A request until its answer begins. One that is dropped before was given up by its client.
struct Visit<'a> {
    app: &'a App,
    /// Method and path, which are not told unless somebody wants to know.
    what: String,
    peer: Option<SocketAddr>,
    name: HeaderValue,
    begin: Instant,
    is_answered: bool,
}

impl<'a> Visit<'a> {
    fn new(app: &'a App, request: &Request) -> Visit<'a> {
        let path: String = request.uri().path().chars().take(LONGEST).collect();
        Visit {
            app,
            // A path may have any character.
            what: format!("{} {}", request.method(), path.escape_debug()),
            peer: request.extensions().get::<Peer>().and_then(|peer| peer.0),
            name: name_of(request.headers()),
            begin: Instant::now(),
            is_answered: false,
        }
    }

    /// What the service is to blame for is always told. Of what clients got wrong the reason is not: it may quote them.
    fn tell_answer(&self, code: u16, failure: Option<&Failure>) {
        match failure.filter(|failure| failure.kind == Kind::Internal) {
            Some(failure) => self.tell(format_args!("{code}, {}", failure.message)),
            None if self.app.config.log_requests => self.tell(code),
            None => {}
        }
    }

    fn tell(&self, how: impl Display) {
        say(format_args!("{self}: {how}"));
    }
}

impl Display for Visit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = self.name.to_str().unwrap_or_default();
        let seconds = self.begin.elapsed().as_secs_f64();
        write!(f, "{name} {}", self.what)?;
        if let Some(peer) = self.peer {
            write!(f, " from {peer}")?;
        }
        write!(f, " after {seconds:.3} s")
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        self.app.metrics.disconnects.fetch_add(1, Ordering::Relaxed);
        if self.app.config.log_requests {
            self.tell("the client went away");
        }
    }
}

fn name_of(headers: &HeaderMap) -> HeaderValue {
    let is_good = |name: &&HeaderValue| {
        !name.is_empty()
            && name.len() <= LONGEST
            && name.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    let own = headers.get(NAME).filter(is_good).cloned();
    own.or_else(|| HeaderValue::try_from(ids::next("req")).ok())
        .unwrap_or(HeaderValue::from_static("req"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_unless_it_could_be_taken_for_something_else() {
        let name = |given: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(NAME, HeaderValue::from_bytes(given).unwrap());
            name_of(&headers).to_str().unwrap().to_string()
        };
        assert_eq!(name(b"a-1/b"), "a-1/b");
        let long = [b'a'; LONGEST + 1];
        for given in [b"".as_slice(), b"a b", b"a\xff", &long] {
            assert!(name(given).starts_with("req-"), "{given:?}");
        }
        assert_eq!(name(&long[1..]).len(), LONGEST);
        assert_ne!(name(b""), name(b""));
    }
}
