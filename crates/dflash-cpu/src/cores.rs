use std::collections::BTreeSet;
use std::fs;
use std::thread::available_parallelism;

/// Cores that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// Cores; two hardware threads of one share its arithmetic, so they are counted once. As many as
    /// `logical` where the system does not tell.
    pub physical: usize,
    /// Hardware threads.
    pub logical: usize,
}

impl Cores {
    /// Those of this machine, within the affinity of the process and the quota of its control group.
    pub fn detect() -> Self {
        let logical = available_parallelism().map_or(1, usize::from);
        let physical = physical().unwrap_or(logical).clamp(1, logical);
        Self { physical, logical }
    }
}

/// Cores in the affinity of the process, as Linux tells it.
fn physical() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let siblings = |cpu| {
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")).ok()
    };
    cores(&cpus(allowed)?, siblings)
}

/// Different cores among `cpus`; `siblings` lists the hardware threads of the core of one. An affinity names
/// processors that are not there too, offline ones and those that could be plugged in: they have no core.
fn cores(cpus: &[usize], siblings: impl Fn(usize) -> Option<String>) -> Option<usize> {
    let cores: BTreeSet<String> = cpus.iter().filter_map(|&cpu| siblings(cpu)).collect();
    (!cores.is_empty()).then_some(cores.len())
}

/// The numbers of a list such as `0-3,8`.
fn cpus(list: &str) -> Option<Vec<usize>> {
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    let ranges: Option<Vec<_>> = list.trim().split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(cpus("\t0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpus("5"), Some(vec![5]));
        assert_eq!(cpus(""), None);
        assert_eq!(cpus("0-x"), None);
    }

    #[test]
    fn threads_of_one_core_are_one_core() {
        // Four cores of two threads: 0 and 4, 1 and 5, ...
        let siblings = |cpu: usize| Some(format!("{},{}\n", cpu % 4, cpu % 4 + 4));
        assert_eq!(cores(&[0, 1, 2, 3, 4, 5, 6, 7], siblings), Some(4));
        assert_eq!(cores(&[1, 5], siblings), Some(1));
        assert_eq!(cores(&[1, 6, 7], siblings), Some(3));
        assert_eq!(cores(&[0, 1], |_| None), None);
        let online = |cpu: usize| (cpu < 8).then(|| siblings(cpu)).flatten();
        assert_eq!(cores(&(0..128).collect::<Vec<_>>(), online), Some(4), "most processors are not there");
    }

    #[test]
    fn a_machine_has_a_core() {
        let Cores { physical, logical } = Cores::detect();
        assert!((1..=logical).contains(&physical));
    }
}
