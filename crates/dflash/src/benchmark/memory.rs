//! The most memory that this process has held: on Linux since the last reset, elsewhere it is not known.

use std::fs;

/// Forgets the peak so far; false where the system does not let us.
pub fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Bytes at most since the reset, mapped files included; else since the start.
pub fn peak() -> Option<u64> {
    peak_of(&fs::read_to_string("/proc/self/status").ok()?)
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_told_in_bytes() {
        assert_eq!(peak_of("VmPeak:\t  9000 kB\nVmHWM:\t  1234 kB\nVmRSS:\t 5 kB\n"), Some(1_263_616));
        assert_eq!(peak_of("VmRSS:\t 5 kB\n"), None);
        assert_eq!(peak_of("VmHWM:\t much kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_held_something() {
        assert!(peak().unwrap() > 100_000);
    }
}
