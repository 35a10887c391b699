//! Cache events for those who route requests, over ZeroMQ, as vLLM's and SGLang's routers read them.
//!
//! ```text
//!   engine ──events──> feed.rs ──batches──> history.rs ──broadcast──> publisher.rs   PUB   [topic, number, batch]
//!            dump ──────^  snapshot <──────── asked ───────────────── replay.rs      ROUTER, from a number on
//!
//!   message.rs   a batch as MessagePack, in the dialect that was asked for
//!   zmtp.rs      what ZeroMQ's sockets say to each other
//! ```
//!
//! Subscribers see the token ids of all prompts: these ports are for routers, not for callers. What they do not see is
//! who asked: a tenant is a number of this process, and the names of blocks are hashed with a secret of it. The engine's
//! own names are made of the tenant's name and the tokens, so that whoever knows the tokens could try out keys and salts.

mod feed;
mod history;
mod message;
mod publisher;
mod replay;
mod zmtp;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prefix::Engine;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub use message::Dialect;

use feed::Feed;
use history::History;

/// How many routers may be connected to each port; further ones wait.
const PEERS: usize = 64;

/// What is published, and where; without an address nothing is.
#[derive(Debug, Clone)]
pub struct Events {
    pub publish: Option<SocketAddr>,
    pub replay: Option<SocketAddr>,
    pub dialect: Dialect,
    pub topic: String,
    pub kept: usize,
}

impl Default for Events {
    fn default() -> Events {
        Events {
            publish: None,
            replay: None,
            dialect: Dialect::default(),
            topic: String::new(),
            kept: 10_000, // as vLLM
        }
    }
}

/// Where it can be heard.
#[derive(Debug)]
pub struct Ports {
    pub publish: SocketAddr,
    pub replay: Option<SocketAddr>,
}

/// The option `cache_events` of the engine, unless it is given: how many events may happen between two looks.
pub const KEPT: u32 = 65536;

/// Publishes until the runtime ends; `None` where nothing is to be published. The engine needs its option
/// `cache_events`.
pub async fn start(engine: Engine, config: &Events) -> io::Result<Option<Ports>> {
    let Some(publish) = config.publish else {
        return Ok(None);
    };
    // Without its option the engine says so here.
    engine.cache_dump().map_err(io::Error::other)?;
    let publish = TcpListener::bind(publish).await?;
    let replay = match config.replay {
        Some(address) => Some(TcpListener::bind(address).await?),
        None => None,
    };
    let ports = Ports {
        publish: publish.local_addr()?,
        replay: replay.as_ref().map(TcpListener::local_addr).transpose()?,
    };
    let history = Arc::new(History::new(
        config.topic.clone(),
        config.dialect,
        config.kept,
    ));
    let (feed, snapshots) = Feed::new(engine, history.clone());
    tokio::spawn(feed.run());
    let shared = history.clone();
    tokio::spawn(accept(publish, move |stream| {
        publisher::serve(stream, shared.clone())
    }));
    if let Some(replay) = replay {
        tokio::spawn(accept(replay, move |stream| {
            replay::serve(stream, history.clone(), snapshots.clone())
        }));
    }
    Ok(Some(ports))
}

async fn accept<F: Future<Output = io::Result<()>> + Send + 'static>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> F,
) {
    let places = Arc::new(Semaphore::new(PEERS));
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                let served = serve(stream);
                tokio::spawn(async move {
                    // A peer that breaks the protocol or goes away is closed; the others go on.
                    let _ = served.await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
