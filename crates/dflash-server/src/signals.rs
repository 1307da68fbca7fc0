use std::io;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What asked the process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The usual word of a supervisor.
    Terminate,
}

/// Signals from now on; they no longer end the process by themselves.
#[cfg(unix)]
pub fn signals() -> io::Result<UnboundedReceiver<Signal>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, signals) = unbounded_channel();
    for (kind, told) in
        [(SignalKind::interrupt(), Signal::Interrupt), (SignalKind::terminate(), Signal::Terminate)]
    {
        let (mut source, sender) = (signal(kind)?, sender.clone());
        tokio::spawn(async move { while source.recv().await.is_some() && sender.send(told).is_ok() {} });
    }
    Ok(signals)
}

/// Signals from now on; they no longer end the process by themselves.
#[cfg(not(unix))]
pub fn signals() -> io::Result<UnboundedReceiver<Signal>> {
    let (sender, signals) = unbounded_channel();
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() && sender.send(Signal::Interrupt).is_ok() {}
    });
    Ok(signals)
}
