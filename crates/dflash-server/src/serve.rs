use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::{App, router};

/// Why a server could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The system gives no runtime.
    #[error("cannot start the server: {0}")]
    Start(#[source] io::Error),
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Serving failed.
    #[error("the server stopped: {0}")]
    Serve(#[source] io::Error),
}

/// Serves until the process is asked to end. `ready` is told the address.
///
/// # Errors
/// An address that cannot be had.
pub fn serve(app: App, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(ServeError::Start)?;
    runtime.block_on(async {
        let address = app.settings.address;
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        ready(listener.local_addr().map_err(listen)?);
        axum::serve(listener, router(app))
            .with_graceful_shutdown(interrupted())
            .await
            .map_err(ServeError::Serve)
    })
}

async fn interrupted() {
    let _ = tokio::signal::ctrl_c().await;
}
