use std::fs;

/// Bytes that this process holds, mapped files included; only Linux tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Now.
    pub rss: Option<u64>,
    /// At most so far.
    pub peak: Option<u64>,
}

impl Memory {
    /// Of now.
    pub fn now() -> Self {
        fs::read_to_string("/proc/self/status").map_or_else(|_| Self::default(), |status| Self::of(&status))
    }

    fn of(status: &str) -> Self {
        Self { rss: kibibytes(status, "VmRSS:"), peak: kibibytes(status, "VmHWM:") }
    }
}

fn kibibytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let count: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(count * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_told_in_bytes() {
        let memory = Memory::of("VmPeak:\t  9000 kB\nVmHWM:\t  1234 kB\nVmRSS:\t 5 kB\n");
        assert_eq!(memory, Memory { rss: Some(5120), peak: Some(1_263_616) });
        assert_eq!(Memory::of("VmRSS:\t much kB\n"), Memory::default());
    }
}
