use std::path::Path;

use sysinfo::Disks;

/// Bytes that are free on the disk of a folder, and all that it has; `None` where nobody knows.
pub fn space(folder: &Path) -> Option<(u64, u64)> {
    let folder = folder.canonicalize().ok()?;
    let disks = Disks::new_with_refreshed_list();
    let holds = |disk: &&sysinfo::Disk| folder.starts_with(disk.mount_point());
    let own = disks.list().iter().filter(holds).max_by_key(|disk| disk.mount_point().as_os_str().len())?;
    Some((own.available_space(), own.total_space()))
}
