//! Progress is told in bytes of the file, and its end is reached by reading.

mod common;

use common::{backend, data};
use dflash_models::load_target;

#[test]
fn the_last_tensor_completes_the_progress() {
    for model in [
        "llama/untied",
        "llama/bf16",
        "qwen2/untied-bf16",
        "qwen3_moe/mixed-bf16",
        "qwen3_5/wrapper-r3",
        "qwen3_5/mlx-r2",
        "qwen3_5_moe/fused",
        "qwen3_5_moe/mlx",
        "qwen3_next/sparse-r3",
        "lfm2/plain",
        "lfm2/mlx-bias",
        "gemma4/ple",
        "gemma4/mlx-moe",
    ] {
        let mut steps = Vec::new();
        load_target(&data(model), backend(), &mut |done, total| steps.push((done, total))).unwrap();
        // The end of the load says that all is done in any case.
        let (&end, read) = steps.split_last().unwrap();
        assert_eq!(read.last(), Some(&end), "{model}: nothing is left to the end of the load");
        assert!(read.iter().all(|step| step.1 == end.1), "{model}: the whole does not change");
        assert!(
            read[..read.len() - 1].iter().all(|step| step.0 < end.1),
            "{model}: done before the last tensor"
        );
        assert!(read.is_sorted_by(|a, b| a.0 < b.0), "{model}: every tensor counts");
    }
}
