use std::path::PathBuf;
use std::sync::Arc;

use dflash_engine::{Decoder, PrefixOptions, Snapshot};
use serde::Serialize;

use super::{DiskOptions, DiskTier, PrefixArgs, PrefixKey};
use crate::env::Environment;
use crate::options::Options;
use crate::report::{Failure, Outcome, say};
use crate::runtime::PairInfo;
use crate::setting::{Names, Origin, Setting, boolean, bytes, whole_number};

const CACHE: Names = Names::new("--prefix-cache", "DFLASH_PREFIX_CACHE");
const ENTRIES: Names = Names::new("--prefix-cache-max-entries", "DFLASH_PREFIX_CACHE_MAX_ENTRIES");
const BYTES: Names = Names::new("--prefix-cache-max-bytes", "DFLASH_PREFIX_CACHE_MAX_BYTES");
const TOKENS: Names = Names::new("--max-snapshot-tokens", "DFLASH_MAX_SNAPSHOT_TOKENS");
const DISK: Names = Names::new("--prefix-cache-l2", "DFLASH_PREFIX_CACHE_L2_ENABLED");
const DISK_DIR: Names = Names::new("--prefix-cache-l2-dir", "DFLASH_PREFIX_CACHE_L2_DIR");
const DISK_BYTES: Names = Names::new("--prefix-cache-l2-max-bytes", "DFLASH_PREFIX_CACHE_L2_MAX_BYTES");

const GIB: u64 = 1 << 30;
/// Ids of a long prompt between two states of a recurrent or windowed model: 19 MB for one of 0.8 B.
const STRIDE: usize = 4096;

/// The settings of the prefix cache, each with its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrefixChoice {
    /// Whether states are kept.
    pub prefix_cache: Setting<bool>,
    /// States in memory at most.
    pub prefix_cache_max_entries: Setting<usize>,
    /// Memory for states; `None` is by the machine's.
    pub prefix_cache_max_bytes: Setting<Option<u64>>,
    /// Longest state in memory, in tokens; 0 for any.
    pub max_snapshot_tokens: Setting<usize>,
    /// Whether states are kept on disk too.
    pub prefix_cache_l2: Setting<bool>,
    /// Where; `None` is in the cache directory.
    pub prefix_cache_l2_dir: Setting<Option<PathBuf>>,
    /// Disk for states.
    pub prefix_cache_l2_max_bytes: Setting<u64>,
}

impl PrefixChoice {
    /// Resolves every setting.
    ///
    /// # Errors
    /// The first one that is wrong.
    pub fn read(args: &PrefixArgs, env: &Environment) -> Outcome<Self> {
        let switch = |names: Names, yes: bool, no: bool| match yes || no {
            true => Ok(Setting::new(yes && !no, Origin::Flag)),
            false => names.resolve(None, env, true, boolean),
        };
        let some = |text: &str| bytes(text).map(Some);
        let dir = match &args.prefix_cache_l2_dir {
            Some(dir) => Setting::new(Some(dir.clone()), Origin::Flag),
            None => DISK_DIR.resolve(None, env, None, |text| Ok(Some(PathBuf::from(text))))?,
        };
        Ok(Self {
            prefix_cache: switch(CACHE, args.prefix_cache, args.no_prefix_cache)?,
            prefix_cache_max_entries: ENTRIES.resolve(
                args.prefix_cache_max_entries.as_deref(),
                env,
                64,
                whole_number(1),
            )?,
            prefix_cache_max_bytes: BYTES.resolve(args.prefix_cache_max_bytes.as_deref(), env, None, some)?,
            max_snapshot_tokens: TOKENS.resolve(
                args.max_snapshot_tokens.as_deref(),
                env,
                32_000,
                whole_number(0),
            )?,
            prefix_cache_l2: switch(DISK, args.prefix_cache_l2, args.no_prefix_cache_l2)?,
            prefix_cache_l2_dir: dir,
            prefix_cache_l2_max_bytes: DISK_BYTES.resolve(
                args.prefix_cache_l2_max_bytes.as_deref(),
                env,
                50 * GIB,
                bytes,
            )?,
        })
    }

    /// The folder of all states on disk; `None` where none are kept there.
    pub fn folder(&self, options: &Options) -> Option<Outcome<PathBuf>> {
        let wanted = self.prefix_cache.value && self.prefix_cache_l2.value;
        let own = || Ok(options.cache()?.root().join("prefix"));
        wanted.then(|| self.prefix_cache_l2_dir.value.clone().map_or_else(own, Ok))
    }

    /// What is kept on disk; `None` for nothing. Where that cannot be, a line says why.
    pub fn disk(&self, decoder: &Decoder, info: &PairInfo, options: &Options) -> Option<DiskTier> {
        let root = self.folder(options)?;
        let open = || -> Outcome<DiskTier> {
            let root = root?;
            let backend = decoder.target().backend();
            let failed =
                |error| Failure::new(format!("states cannot be kept in {}", root.display())).cause(error);
            let key = PrefixKey::of(info, backend.as_ref(), options).map_err(failed)?;
            let disk = DiskOptions {
                folder: root.join(key.target),
                draft: key.draft,
                bytes: self.prefix_cache_l2_max_bytes.value,
            };
            DiskTier::open(disk, Snapshot::blank(decoder), Arc::clone(backend)).map_err(failed)
        };
        open().map_err(|failure| say(format_args!("warning: {failure}"))).ok()
    }

    /// What is kept in memory; `None` for nothing.
    pub fn memory(&self) -> Option<PrefixOptions> {
        let own = || {
            let mut system = sysinfo::System::new();
            system.refresh_memory();
            (8 * GIB).min(system.total_memory() / 4)
        };
        self.prefix_cache.value.then(|| PrefixOptions {
            entries: self.prefix_cache_max_entries.value,
            bytes: self.prefix_cache_max_bytes.value.unwrap_or_else(own) as usize,
            longest: Some(self.max_snapshot_tokens.value).filter(|&most| most > 0).unwrap_or(usize::MAX),
            stride: STRIDE,
        })
    }
}
