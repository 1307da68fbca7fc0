use tokio::sync::Semaphore;

use crate::{ApiError, Kind};

/// Requests that are read at once. One of the largest allowed body takes seconds and gigabytes in the tokenizer: many
/// of them shall wait, not take the machine.
const AT_ONCE: usize = 4;

static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);

/// Does work that takes a while on a thread of its own, so that connections are served meanwhile. Little of it is done
/// at once; what nobody waits for any more is not begun.
///
/// # Errors
/// What `work` returns; its panic is an internal error.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let failed =
        |_| ApiError::new(Kind::Internal, "the request could not be read: this is a fault of the server");
    let place = PLACES.acquire().await.expect("it is never closed");
    // The place belongs to the work, which goes on when whoever waited is gone.
    let held = move || {
        let _place = place;
        work()
    };
    tokio::task::spawn_blocking(held).await.map_err(failed)?
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn many_requests_are_read_a_few_at_a_time() {
        static NOW: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let work = || {
            MOST.fetch_max(NOW.fetch_add(1, SeqCst) + 1, SeqCst);
            thread::sleep(Duration::from_millis(20));
            NOW.fetch_sub(1, SeqCst);
            Ok(())
        };
        let all = (0..5 * AT_ONCE).map(|_| tokio::spawn(blocking(work))).collect::<Vec<_>>();
        // Who leaves frees no place before the work is done.
        all.iter().take(2).for_each(|one| one.abort());
        for one in all.into_iter().skip(2) {
            one.await.unwrap().unwrap();
        }
        assert!((1..=AT_ONCE).contains(&MOST.load(SeqCst)), "{MOST:?}");
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_and_gives_its_place_back() {
        for _ in 0..2 * AT_ONCE {
            let error = blocking(|| -> Result<(), _> { panic!("for the test") }).await.unwrap_err();
            assert_eq!(error.kind, Kind::Internal);
        }
    }
}
