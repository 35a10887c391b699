//! Connections: how many, how long they may be silent, and how they end.
//!
//! ```text
//!   SIGTERM ──> new requests get 503, those that run go on ──> none is left, or the time is over
//!               (the port stays open: nobody who comes now           │
//!               is left without an answer)                           v
//!               the port is closed, connections are closed when their answers are out
//! ```

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::Shared;
use crate::stalled::Stalled;

/// How long the port stays open after the signal at least, for those who do not know yet.
const LEAD: Duration = Duration::from_millis(500);
/// Connections that the system keeps until they are accepted, as far as its own limit allows.
const QUEUE: u32 = 1024;
/// How long answers that are there may take to be read at the end.
const GOODBYE: Duration = Duration::from_secs(5);

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
    let places = Arc::new(Semaphore::new(app.config.max_connections));
    let connections = GracefulShutdown::new();
    {
        let accept = std::pin::pin!(accept(&listener, &places, &router, &app, &connections));
        let finished = async {
            stop.await;
            app.gate.refuse();
            let drain = app.config.drain;
            let _ = tokio::join!(
                tokio::time::sleep(LEAD.min(drain)),
                tokio::time::timeout(drain, app.gate.empty())
            );
        };
        tokio::select! {
            _ = accept => {}
            () = finished => {}
        }
    }
    app.gate.end();
    accept_rest(listener, &router, &app, &connections);
    // What was accepted in the last moment is on its way through its connection.
    tokio::time::sleep(LEAD.min(app.config.drain) / 4).await;
    let _ = tokio::time::timeout(GOODBYE, connections.shutdown()).await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    router: &Router,
    app: &Shared,
    connections: &GracefulShutdown,
) {
    // Beyond the limit connections wait where the system keeps them.
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => open(stream, Some(place), router, app, connections),
            // Out of file descriptors, or a client that has gone: others may do better.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
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
    let stalled = Stalled::new(stream, app.config.write, app.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.config.body.time)
        .serve_connection(
            TokioIo::new(stalled),
            TowerToHyperService::new(router.clone()),
        );
    let connection = connections.watch(connection);
    let app = app.clone();
    app.metrics.connections.fetch_add(1, Ordering::Relaxed);
    app.metrics
        .connections_total
        .fetch_add(1, Ordering::Relaxed);
    tokio::spawn(async move {
        // A connection that breaks is the client's business.
        let _ = connection.await;
        app.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        drop(place);
    });
}
