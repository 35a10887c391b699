//! Connections: how many, how long they may be silent, and how they end.
//!
//! ```text
//!   SIGTERM ──> new requests get 503, those that run go on ──> none is left, or the time is over
//!               (the port stays open: nobody who comes now           │
//!               is left without an answer)                           v
//!               the port is closed, connections are closed when their answers are out, or when that takes too long
//! ```

use std::convert::Infallible;
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{service_fn, Service};
use hyper::Request;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::app::Shared;
use crate::places::{Answer, Seat};
use crate::stalled::Stalled;
use crate::uploads::Upload;
use crate::watch::Peer;

/// How long the port stays open after the signal at least, for those who do not know yet.
const LEAD: Duration = Duration::from_millis(500);
/// Connections that the system keeps until they are accepted, as far as its own limit allows.
const QUEUE: u32 = 1024;
/// Bytes that the system keeps of an answer beyond those that are under way. With them it tells every 30 to 130 KB that a
/// client reads, of its own choice every 1.4 MB (between two ends of one machine).
const UNSENT: u32 = 32 << 10;
/// How long answers that are there may take to be read at the end, as long as that is in the time of `--drain-seconds`.
const GOODBYE: Duration = Duration::from_secs(5);
/// How long they may take at least: what was given up is told to those who asked for it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Takes a port, on which nobody can connect before [`listen`]: what has a connection counts as ready.
pub fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// As `TcpListener::bind` does, with a longer queue.
pub fn listen(socket: TcpSocket) -> std::io::Result<TcpListener> {
    socket.listen(QUEUE)
}

/// Serves until `stop` is ready and everything is answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    app: Shared,
    stop: impl Future<Output = ()>,
) {
    let connections = GracefulShutdown::new();
    let drain = app.config.drain;
    let mut next = None;
    let end = {
        let accept = std::pin::pin!(accept(&listener, &mut next, &router, &app, &connections));
        let finished = async {
            stop.await;
            let end = Instant::now() + drain;
            app.gate.refuse();
            let _ = tokio::join!(
                tokio::time::sleep(LEAD.min(drain)),
                tokio::time::timeout_at(end, app.gate.empty())
            );
            end
        };
        tokio::select! {
            end = accept => end,
            end = finished => end,
        }
    };
    app.gate.end();
    let end = last_moment(Instant::now(), end);
    if let Some(stream) = next {
        open(stream, None, &router, &app, &connections);
    }
    accept_rest(listener, &router, &app, &connections);
    // What was accepted in the last moment is on its way through its connection.
    tokio::time::sleep(LEAD.min(drain) / 4).await;
    let _ = tokio::time::timeout_at(end, connections.shutdown()).await;
}

/// Ends without what threads still compute, such as the tokens of a long text: nobody waits for it.
pub fn leave(runtime: Runtime) {
    runtime.shutdown_timeout(LAST_WORDS);
}

/// When nobody is waited for any more, where work was over at `now` and has time until `end`.
fn last_moment(now: Instant, end: Instant) -> Instant {
    end.min(now + GOODBYE).max(now + LAST_WORDS)
}

/// Never ready. `next` is a connection that has no place yet.
async fn accept(
    listener: &TcpListener,
    next: &mut Option<TcpStream>,
    router: &Router,
    app: &Shared,
    connections: &GracefulShutdown,
) -> Instant {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => *next = Some(stream),
            Err(why) => {
                // Out of file descriptors, which a system may give fewer of than there are places. One that was told to
                // go needs a moment for it.
                let made = why.kind() != ErrorKind::ConnectionAborted && app.places.make_room();
                let pause = if made { 100 } else { 10 };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
        // Those behind it wait where the system keeps them.
        if next.is_some() {
            let place = app.places.take().await;
            if let Some(stream) = next.take() {
                open(stream, place, router, app, connections);
            }
        }
    }
}

/// Who is in the system's queue has connected, and may have asked: closed with the port, they would get no answer. So they
/// need no place, of which there may be none.
fn accept_rest(
    listener: TcpListener,
    router: &Router,
    app: &Shared,
    connections: &GracefulShutdown,
) {
    let Ok(listener) = listener.into_std() else {
        return;
    };
    // Between the last look into the queue and its end one may come, then, not a crowd.
    let _ = SockRef::from(&listener).listen(0);
    // It does not block, and says when there is nobody. Others may come all the time.
    for _ in 0..QUEUE {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(why) if why.kind() == ErrorKind::WouldBlock => return,
            Err(_) => continue, // a client that has gone
        };
        if stream.set_nonblocking(true).is_ok() {
            if let Ok(stream) = TcpStream::from_std(stream) {
                open(stream, None, router, app, connections);
            }
        }
    }
}

fn open(
    stream: TcpStream,
    place: Option<OwnedSemaphorePermit>,
    router: &Router,
    app: &Shared,
    connections: &GracefulShutdown,
) {
    let _ = stream.set_nodelay(true); // pieces of a stream are small and must not wait
    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
    let (seat, peer) = (Seat::new(&app.places), Peer(stream.peer_addr().ok()));
    let stalled = Stalled::new(stream, app.config.write, app.clone(), seat.clone());
    let router = TowerToHyperService::new(router.clone());
    let (taken, uploads) = (seat.clone(), app.places.uploads.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        taken.begin();
        let mut request = request.map(|body| Upload::new(body, &uploads));
        request.extensions_mut().insert(peer);
        let (answer, seat) = (router.call(request), taken.clone());
        async move { Ok::<_, Infallible>(answer.await?.map(|body| Answer::new(body, seat))) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.config.body.time)
        .serve_connection(TokioIo::new(stalled), service);
    let connection = connections.watch(connection);
    let app = app.clone();
    app.metrics.connections.fetch_add(1, Ordering::Relaxed);
    app.metrics
        .connections_total
        .fetch_add(1, Ordering::Relaxed);
    tokio::spawn(async move {
        tokio::select! {
            // One that breaks otherwise is the client's business.
            done = connection => {
                if done.is_err_and(|why| why.is_parse()) {
                    app.metrics.broken_heads.fetch_add(1, Ordering::Relaxed);
                }
            }
            () = seat.closed() => {}
        }
        app.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        drop(place);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_in_the_time_for_it_and_a_second() {
        let now = Instant::now();
        for (left, lasts) in [(0, 1), (1, 1), (3, 3), (5, 5), (30, 5)] {
            let end = last_moment(now, now + Duration::from_secs(left));
            assert_eq!(end - now, Duration::from_secs(lasts), "{left}");
        }
    }

    #[test]
    fn work_that_goes_on_is_left() {
        let runtime = Runtime::new().unwrap();
        let (begin, begun) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        runtime.spawn_blocking(move || {
            begin.send(()).unwrap();
            let _ = ended.recv();
        });
        begun.recv().unwrap();
        leave(runtime);
        drop(end); // the work could not end before
    }
}
