//! What must come of files whose settings make no sense.

use dflash_models::{LoadedTarget, ModelError};
use dflash_tensor::{Batch, Shape};

/// A load that ends in an error with words in it, or in a model that answers or says that it cannot.
pub fn settle(result: Result<LoadedTarget, ModelError>) {
    match result {
        Ok(loaded) => {
            assert!(loaded.weight_bytes < 1 << 22, "{} bytes", loaded.weight_bytes);
            answer(&loaded);
        }
        Err(error) => assert!(error.to_string().len() > 20, "{error}"),
    }
}

/// A few rows in two passes, of which the second is taken back in part.
fn answer(loaded: &LoadedTarget) {
    let target = &loaded.target;
    let (mut cache, mut ws) = (target.new_cache(), target.workspace());
    let last = target.spec().vocab as u32 - 1;
    let mut choices = Vec::new();
    for (start, ids, accepted) in [(0, [0, last, last / 2], 3), (3, [last, 0, last], 1)] {
        let mut batch = Batch::new();
        batch.push(&ids, start, Shape::Chain);
        cache.begin_verify(3);
        target.forward(&mut ws, &batch, &mut [&mut cache], None);
        let rows = [0, 1, 2];
        if let Err(error) = target.choose(&ws, &rows, &mut choices) {
            assert!(!error.to_string().is_empty());
        }
        cache.accept_chain(accepted);
    }
}
