//! Ctrl-C, as a flag while something must be tidied up, and as the system's default otherwise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Whether the user asked to stop. Clones share the answer.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

struct Handlers {
    asked: Interrupt,
    /// True while nothing is to be tidied up, so that a signal ends the process at once.
    end_at_once: Arc<AtomicBool>,
}

static HANDLERS: OnceLock<Option<Handlers>> = OnceLock::new();

/// Keeps signals from ending the process; from the drop on they do again.
#[derive(Debug)]
pub struct Caught(Option<Arc<AtomicBool>>);

impl Interrupt {
    /// A flag that only [`Interrupt::ask`] sets.
    pub fn manual() -> Self {
        Self::default()
    }

    /// Catches the signals that ask this process to end, for as long as the guard lives. Where
    /// handlers cannot be installed the default stays, and the next start tidies up instead.
    pub fn catch() -> (Self, Caught) {
        let Some(handlers) = HANDLERS.get_or_init(|| install().ok()) else {
            return (Self::manual(), Caught(None));
        };
        handlers.end_at_once.store(false, Ordering::SeqCst);
        (handlers.asked.clone(), Caught(Some(Arc::clone(&handlers.end_at_once))))
    }

    /// Asks to stop.
    pub fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether somebody asked.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        if let Some(end_at_once) = &self.0 {
            end_at_once.store(true, Ordering::SeqCst);
        }
    }
}

fn install() -> std::io::Result<Handlers> {
    let handlers = Handlers { asked: Interrupt::default(), end_at_once: Arc::new(AtomicBool::new(true)) };
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&handlers.end_at_once))?;
        flag::register(signal, Arc::clone(&handlers.asked.0))?;
    }
    Ok(handlers)
}

/// Ends the process as the signal would have, so that a calling shell stops its script too.
pub fn end_by_signal(signal: i32) {
    // When this fails the caller goes on to an ordinary exit code.
    let _ = low_level::emulate_default_handler(signal);
}
