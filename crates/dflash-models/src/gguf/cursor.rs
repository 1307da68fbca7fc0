/// Reads little-endian values off a byte slice; an error says at which byte the slice ended or why.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Bytes not read yet.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("{count} bytes at {} run beyond its end", self.at))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("take returns the length asked for"))
    }

    pub(super) fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    /// A count of things that take at least `least` bytes each.
    pub(super) fn count(&mut self, least: usize, what: &str) -> Result<usize, String> {
        let count = self.u64()?;
        let fits =
            usize::try_from(count).ok().filter(|&n| n.checked_mul(least).is_some_and(|b| b <= self.left()));
        fits.ok_or_else(|| format!("{count} {what} do not fit into the {} bytes left", self.left()))
    }

    pub(super) fn string(&mut self) -> Result<String, String> {
        let start = self.at;
        let length = self.count(1, "bytes of a string")?;
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes).map_err(|_| format!("the string at {start} is not UTF-8"))?;
        Ok(text.to_owned())
    }
}
