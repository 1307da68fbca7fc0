/// Keeps memory that was freed for what is allocated next: a step makes and drops hundreds of megabytes, and to get them
/// from the system anew took a quarter of its time. Where the C library is another than glibc, nothing changes.
pub(crate) fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: these set numbers of the allocator, under its lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
    }
}
