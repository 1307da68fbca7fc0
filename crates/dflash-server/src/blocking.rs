use crate::{ApiError, Kind};

/// Does work that takes a while on a thread of its own, so that connections are served meanwhile.
///
/// # Errors
/// What `work` returns; its panic is an internal error.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let failed =
        |_| ApiError::new(Kind::Internal, "the request could not be read: this is a fault of the server");
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}
