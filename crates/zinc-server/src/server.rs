//! Listening, connections, and the end of the server.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::api;
use crate::options::ServerOptions;
use crate::stall::StallGuard;
use crate::state::State;

/// How long connections may take to end once no request is under way.
const LINGER: Duration = Duration::from_secs(3);

/// How often a server that drains looks whether it is done.
const LOOK: Duration = Duration::from_millis(20);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Anyone in the network could use the server.
    #[error(
        "{host} can be reached from other machines, so that a key is needed: --api-key, --api-key-file or ZINC_API_KEY; --insecure does without"
    )]
    Open {
        /// The address.
        host: std::net::IpAddr,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Bind {
        /// The address with its port.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// A server that listens. It answers from now on, as soon as [`run`](Self::run) is polled, with 503 until [`State::serve`] gives it a model.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    state: Arc<State>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// [`ServeError::Open`] for an address that other machines reach, without keys and without [`ServerOptions::insecure`]; [`ServeError::Bind`].
    pub async fn bind(options: ServerOptions) -> Result<Self, ServeError> {
        let ServerOptions { host, port, .. } = options;
        if !host.is_loopback() && options.keys.is_empty() && !options.insecure {
            return Err(ServeError::Open { host });
        }
        let address = SocketAddr::new(host, port);
        let refused = |source| ServeError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, address, state: State::new(options) })
    }

    /// The address, with the port that was found if it was to be any.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the requests share.
    #[must_use]
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Serves until `stop` completes, and then until all running requests are answered or have had their time ([`ServerOptions::drain_limit`]). While
    /// they run, `/health` says 503 and `/live` 200, and requests that come or wait are refused with 503.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, state, .. } = self;
        let (closing, closed) = watch::channel(false);
        let router = api::router(&state);
        let connections = Arc::new(Semaphore::new(state.options.most_connections.max(1)));
        let accepting = tokio::spawn(accept(listener, router, Arc::clone(&state), Arc::clone(&connections), closed));
        stop.await;
        tracing::info!("no further requests are taken");
        state.drain();
        let limit = Instant::now() + state.options.drain_limit;
        while !state.is_idle() && Instant::now() < limit {
            tokio::time::sleep(LOOK).await;
        }
        state.cancel_all();
        accepting.abort();
        // The receivers are those of connections, which may be gone.
        let _ = closing.send(true);
        let limit = Instant::now() + LINGER;
        let all = state.options.most_connections.max(1);
        while (connections.available_permits() < all || !state.is_idle()) && Instant::now() < limit {
            tokio::time::sleep(LOOK).await;
        }
        state.unload();
    }
}

/// Accepts connections for ever, as many at a time as there are permits.
async fn accept(
    listener: TcpListener,
    router: Router,
    state: Arc<State>,
    connections: Arc<Semaphore>,
    closed: watch::Receiver<bool>,
) {
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Such as too many open files, which closing connections will free.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(LOOK).await;
                continue;
            }
        };
        let connection = serve(stream, router.clone(), Arc::clone(&state), closed.clone());
        tokio::spawn(async move {
            connection.await;
            drop(permit);
        });
    }
}

/// Serves one connection until it is closed.
async fn serve(stream: TcpStream, router: Router, state: Arc<State>, mut closed: watch::Receiver<bool>) {
    // A token is a small packet that should not wait for the next.
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(state.options.timeout);
    // The request behind it is cancelled before.
    let stream = StallGuard::new(stream, state.options.reader_patience.saturating_mul(2));
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let closing = async move { drop(closed.wait_for(|closed| *closed).await) };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = closing => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}
