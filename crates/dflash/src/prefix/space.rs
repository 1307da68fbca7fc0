use std::path::Path;

use sysinfo::Disks;

/// Bytes of a disk that stay free, where a twentieth of it is not less.
const FREE: u64 = 4 << 30;

/// Bytes that states may still take on the disk of a folder; `None` where nobody knows.
pub fn room(folder: &Path) -> Option<u64> {
    let folder = folder.canonicalize().ok()?;
    let disks = Disks::new_with_refreshed_list();
    let holds = |disk: &&sysinfo::Disk| folder.starts_with(disk.mount_point());
    let own = disks.list().iter().filter(holds).max_by_key(|disk| disk.mount_point().as_os_str().len())?;
    Some(own.available_space().saturating_sub(FREE.min(own.total_space() / 20)))
}
