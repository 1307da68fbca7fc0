use dflash_cpu::{Cores, CpuBackend};
use serde_json::json;

use super::Check;
use crate::cache::human_bytes;
use crate::cores::cores;
use crate::options::Options;
use crate::prefix::{PrefixChoice, room};

/// Features that kernels may use, in the order of their age.
fn features() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! look {
            ($($name:tt)*) => { $(if std::is_x86_feature_detected!($name) { found.push($name) })* };
        }
        look!("ssse3" "sse4.2" "avx" "f16c" "fma" "avx2" "avx512f" "avx512bw" "avx512vnni");
    }
    #[cfg(target_arch = "aarch64")]
    found.push("neon");
    found
}

/// Instruction set, kernels and threads.
pub fn cpu(backend: &CpuBackend) -> Check {
    let (features, threads, isa) = (features(), backend.threads(), backend.isa());
    let Cores { physical, logical } = cores();
    let message = format!(
        "{} | {} kernels | {threads} threads on {physical} cores ({logical} logical)",
        if features.is_empty() { "no vector features known".to_owned() } else { features.join(" ") },
        isa.name(),
    );
    let details = json!({
        "arch": std::env::consts::ARCH, "features": features, "kernels": isa.name(),
        "threads": threads, "cores": physical, "logical_cores": logical,
    });
    let check = match isa {
        _ if threads > logical => {
            Check::warning("cpu", format!("{message}; more threads than that slow each other down"))
        }
        dflash_cpu::Isa::Scalar if cfg!(target_arch = "x86_64") => Check::warning(
            "cpu",
            format!("{message}; without AVX2, FMA and F16C decoding is several times slower"),
        ),
        _ if dflash_cpu::Isa::avx512_failed() => Check::warning(
            "cpu",
            format!("{message}; AVX-512 gave other bits than it should and is not used"),
        ),
        _ => Check::ok("cpu", message),
    };
    check.with(details)
}

/// What bounds plain decoding: every step reads all weights once.
pub fn bandwidth(backend: &CpuBackend) -> Check {
    let bytes_per_second = backend.read_bandwidth();
    Check::ok(
        "bandwidth",
        format!("{:.1} GB/s read by {} threads", bytes_per_second / 1e9, backend.threads()),
    )
    .with(json!({ "bytes_per_second": bytes_per_second }))
}

/// Whether the cache directory can be written, and what is in it.
pub fn cache(options: &Options) -> Check {
    let cache = match options.cache() {
        Ok(cache) => cache,
        Err(failure) => return Check::warning("cache", failure.to_string()),
    };
    let root = cache.root().display();
    let writable = std::fs::create_dir_all(cache.root())
        .and_then(|()| tempfile::Builder::new().prefix(".doctor-").tempfile_in(cache.root()).map(drop));
    if let Err(error) = writable {
        let advice = "what is in it can still be used; DFLASH_CACHE names another directory";
        return Check::warning("cache", format!("{root} cannot be written: {error}\n{advice}"));
    }
    let files = cache.files().unwrap_or_default();
    let mut message = root.to_string();
    for file in &files {
        message += &format!("\n{:>10}  {}", human_bytes(file.bytes), file.name);
    }
    Check::ok("cache", message).with(json!({ "directory": root.to_string(), "files": files }))
}

/// What a server would keep of prompts and answers, and whether it can.
pub fn prefix(choice: &PrefixChoice, options: &Options) -> Check {
    let Some(memory) = choice.memory() else { return Check::ok("prefix", "nothing is kept of prompts") };
    let mut message =
        format!("{} states in {} of memory at most", memory.entries, human_bytes(memory.bytes as u64));
    let folder = match choice.folder(options) {
        None => return Check::ok("prefix", message + ", nothing on disk"),
        Some(Err(failure)) => return Check::warning("prefix", failure.to_string()),
        Some(Ok(folder)) => folder,
    };
    let most = choice.prefix_cache_l2_max_bytes.value;
    message += &format!("\n{} in {} at most", human_bytes(most), folder.display());
    let writable = std::fs::create_dir_all(&folder)
        .and_then(|()| tempfile::Builder::new().prefix(".doctor-").tempfile_in(&folder).map(drop));
    if let Err(error) = writable {
        return Check::fatal("prefix", format!("{} cannot be written: {error}", folder.display()));
    }
    match room(&folder) {
        Some(0) => {
            let advice = "the disk is nearly full, nothing will be kept there: --prefix-cache-l2-dir names another folder";
            Check::warning("prefix", format!("{message}\n{advice}"))
        }
        Some(room) if room < most => {
            Check::ok("prefix", format!("{message}, {} as the disk is now", human_bytes(room)))
        }
        _ => Check::ok("prefix", message),
    }
}
