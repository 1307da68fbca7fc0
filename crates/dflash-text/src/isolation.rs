//! Running code of others on data of others: a panic there is an error here, and a deep recursion has room.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// Reserved, not used: a thread takes only the pages it touches.
const STACK: usize = 256 << 20;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; `None` when it panics, of which nothing is printed.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    install_hook();
    let before = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    result.ok()
}

/// Runs `work` as [`quietly`] does, on a thread with a large stack.
pub(crate) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("chat template".into()).stack_size(STACK);
        thread.spawn_scoped(scope, || quietly(work)).ok()?.join().ok().flatten()
    })
}

/// Puts a hook before the one that is there, which goes on to hear of every other panic.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let next = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.try_with(Cell::get).unwrap_or(false) {
                next(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_none_and_what_was_quiet_is_loud_again() {
        assert_eq!(quietly(|| [1, 2][std::hint::black_box(2)]), None);
        assert!(!QUIET.get());
        assert_eq!(on_large_stack(|| -> u32 { panic!("unheard") }), None);
        assert_eq!(on_large_stack(|| 3), Some(3));
    }
}
