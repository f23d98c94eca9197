//! What the operating system knows of this process.

/// Bytes of memory that this process has in use, as Linux counts them; none elsewhere.
///
/// It includes what an allocator adds to each allocation, which counting requests would miss.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}
