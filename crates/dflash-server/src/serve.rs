use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use crate::life::Phase;
use crate::signals::{Signal, signals};
use crate::{App, router};

/// Time for the head of a request; a connection that is idle for so long is closed.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Time for the last bytes of answers that are complete.
const LAST_BYTES: Duration = Duration::from_secs(2);
/// How often a draining server looks whether it is done.
const LOOK: Duration = Duration::from_millis(20);

/// Why a server could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The system gives no runtime.
    #[error("cannot start the server")]
    Start(#[source] io::Error),
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Asked by a signal, after every answer was complete.
    Drained,
    /// By a second signal, or with answers cut off when their time was over.
    Cut(Signal),
}

/// Serves until a signal asks the process to end. `ready` is told the address.
///
/// # Errors
/// An address that cannot be had.
pub fn serve(app: App, ready: impl FnOnce(SocketAddr)) -> Result<Ended, ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    let ended = runtime.block_on(async {
        let address = app.settings.address;
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let signals = signals().map_err(ServeError::Start)?;
        ready(listener.local_addr().map_err(listen)?);
        Ok(run(app, listener, signals).await)
    });
    // What still compiles a grammar for nobody is not waited for.
    runtime.shutdown_background();
    ended
}

/// Serves on `listener` until `signals` brings one.
pub async fn run(app: App, listener: TcpListener, mut signals: UnboundedReceiver<Signal>) -> Ended {
    let connections = Connections {
        service: TowerToHyperService::new(router(app.clone())),
        graceful: GracefulShutdown::new(),
    };
    let first = tokio::select! {
        never = connections.accept(&listener) => match never {},
        signal = next(&mut signals) => signal,
    };
    app.life.enter(Phase::Draining);
    // Probes are still answered.
    let drained = tokio::select! {
        biased;
        signal = next(&mut signals) => return Ended::Cut(signal),
        () = idle(&app) => true,
        () = sleep(app.settings.drain) => false,
        never = connections.accept(&listener) => match never {},
    };
    drop(listener);
    app.life.enter(Phase::Ending);
    tokio::select! {
        biased;
        signal = next(&mut signals) => return Ended::Cut(signal),
        () = connections.graceful.shutdown() => {}
        () = sleep(LAST_BYTES) => {}
    }
    if drained { Ended::Drained } else { Ended::Cut(first) }
}

async fn next(signals: &mut UnboundedReceiver<Signal>) -> Signal {
    match signals.recv().await {
        Some(signal) => signal,
        None => std::future::pending().await,
    }
}

/// Waits until nothing is in work or in the queue.
async fn idle(app: &App) {
    loop {
        let load = app.model.engine.load();
        if load.active + load.waiting == 0 {
            return;
        }
        sleep(LOOK).await;
    }
}

struct Connections {
    service: TowerToHyperService<Router>,
    graceful: GracefulShutdown,
}

impl Connections {
    async fn accept(&self, listener: &TcpListener) -> Infallible {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.serve(stream),
                // Out of file handles, most likely: connections that end give some back.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn serve(&self, stream: TcpStream) {
        // Tokens are small and shall not wait for each other.
        let _ = stream.set_nodelay(true);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
        let connection = http.serve_connection(TokioIo::new(stream), self.service.clone());
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            // A client that goes away is no failure of the server's.
            let _ = connection.await;
        });
    }
}
